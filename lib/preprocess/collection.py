"""Every raw file of a collection into one cache: in parallel, a graph at a time in memory.

A file whose *content* is no good may be left out. Whatever else goes wrong is no file's fault and
ends the stage, with nothing written.
"""

from __future__ import annotations

import signal
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import polars as pl
from joblib import Parallel, delayed

from lib.cache.manifest import holds_the_same
from lib.cache.reader import read_table
from lib.cache.writer import CacheWriter
from lib.files.artifacts import atomic_folder, fingerprint_files, fingerprint_value
from lib.files.errors import DataError, UserError
from lib.files.locks import is_in_use
from lib.files.progress import Lines
from lib.files.regular import UnreadableError
from lib.preprocess.stage import Graphs, preprocess_of
from lib.tpugraphs.npz import stem
from lib.tpugraphs.roots import SPLITS, DataRoot

TASK_FILES = 128  # that a worker takes at a time: to hand each small one over would take long
TASKS = 8  # of a worker, at least, or workers would end at different times
MOST_JOBS = 1024  # processes, however many --jobs names


@dataclass(frozen=True)
class RawFile:
    """A file of a collection, and the split whose folder it is in."""

    path: Path
    split: str


@dataclass(frozen=True)
class Skipped:
    """A bad file that was left out, and what is wrong with it."""

    file: RawFile
    error: DataError

    def __str__(self) -> str:
        """One line: file, key, found, expected."""
        return " ".join(str(self.error).split())

    def entry(self) -> dict[str, str]:
        """Return its entry in the manifest, the same wherever the data root is."""
        _, key, actual, expected = self.error.args
        why = f"{key}: found {actual}, expected {expected}"
        return {"split": self.file.split, "file": self.file.path.name, "why": why}


Row = dict[str, Any]  # a graph's row of the cache's table
Result = list[Row] | DataError  # of one file
Process = Callable[[list[RawFile], Path], list[Result]]  # some files, and where their part goes


def raw_files(root: DataRoot, folder: Path) -> list[RawFile]:
    """The raw files of a collection's folder below ``npz``, in the order of split and name; raises
    UserError if two splits have a graph of the same name."""
    files = [RawFile(path, split) for split in SPLITS for path in root.files(folder, split)]
    seen: set[str] = set()
    for name in (stem(file.path) for file in files):
        if name in seen:
            raise UserError(f"{root.npz / folder}: graph {name} is in two splits; remove one")
        seen.add(name)
    return files


def write_cache(
    path: Path,
    files: list[RawFile],
    settings: dict[str, Any],
    jobs: int = 1,
    keep_going: bool = False,
    kind: str = "layout",
    check: Callable[[], None] = lambda: None,
    graphs: Graphs | None = None,
) -> tuple[pl.DataFrame, list[Skipped]]:
    """Write the cache folder, whole or not at all; one that holds the same stays as it is.

    Args:
        path, files: the folder, and what to put there, in this order.
        settings: what the cache depends on, in addition to the files.
        jobs, keep_going: worker processes; whether to leave bad files out instead of raising.
        kind: of the graphs, one of :data:`lib.systems.SYSTEMS`.
        check: is called once all files are read; if it raises, nothing is written.
        graphs: a raw file's way into the cache; without, that of its kind.

    Returns:
        The cache's table, and the files that were left out.

    Raises:
        OSError: if the cache cannot be written.
        UserError: if a worker was killed or ran out of memory, or there cannot be so many.
        UnreadableError: if a file cannot be read: missing, no permission, a failing disk. That
            is nothing of its content, so that it ends the stage also with ``keep_going``: a
            graph would be left out that is good once the disk is there again.
        DataError: if a file's content is bad; with ``keep_going``, if that of every file is.
    """
    with atomic_folder(path, _may_stay) as temporary, CacheWriter(temporary, kind) as writer:
        graphs = graphs or preprocess_of(kind).graphs
        process = partial(_process, kind, graphs, settings, keep_going)
        parts = writer.folder / "parts"  # what the workers write
        parts.mkdir()
        most = min(TASK_FILES, 1 + len(files) // (TASKS * max(1, jobs)))
        tasks = [files[start : start + most] for start in range(0, len(files), most)]
        with closing(_process_all(tasks, process, parts, jobs)) as results:
            gathered = _gather(writer, tasks, results, parts)
            lines = Lines("preprocess", len(files), "graph")
            skipped = [outcome for outcome in lines.over(gathered) if outcome]
        parts.rmdir()
        if skipped and not writer.rows:
            raise skipped[0].error
        check()
        metadata = preprocess_of(kind).metadata(files[0].path)
        writer.finish({**metadata, **_manifest(writer, skipped, settings)})
    return read_table(path), skipped


def _may_stay(old: Path, new: Path) -> bool:
    """Return whether two caches hold the same; a UserError if the old one cannot go."""
    if holds_the_same(old, new):
        return True
    if is_in_use(old):
        advice = "wait for its end, or give OUTPUTS=, a folder of its own"
        raise UserError(f"{old}: another run learns from it, and it would become another; {advice}")
    return False


def _gather(
    writer: CacheWriter,
    tasks: list[list[RawFile]],
    results: Iterable[list[Result]],
    parts: Path,
) -> Iterator[Skipped | None]:
    """Move each task's part of the cache to where it belongs; yields whether a file has none."""
    seen: set[str] = set()
    for index, (task, outcomes) in enumerate(zip(tasks, results, strict=True)):
        rows = []
        for file, result in zip(task, outcomes, strict=True):
            if isinstance(result, DataError):
                yield Skipped(file, result)
            else:
                for name in (row["graph"] for row in result):
                    if name in seen:
                        why = f"graph {name} is in another file too; remove one"
                        raise UserError(f"{file.path}: {why}")
                    seen.add(name)
                rows += result
                yield None
        writer.extend(parts, rows, f"{index}-")
        for name in writer.arrays:
            (parts / f"{index}-{name}.bin").unlink()


def _process_all(
    tasks: list[list[RawFile]], process: Process, parts: Path, jobs: int
) -> Generator[list[Result]]:
    """Yield each task's results, in order; its arrays are then in numbered files of ``parts``.

    A worker writes them there and hands back the rows only, so that no array is pickled. (In one
    folder: deleting one takes some file systems milliseconds.) Once this is closed, no worker
    writes any more.
    """
    if jobs < 1:
        raise UserError(f"--jobs {jobs}: at least 1")
    jobs = min(jobs, max(2, len(tasks)), MOST_JOBS)
    parallel = Parallel(jobs, return_as="generator", pre_dispatch="2*n_jobs", batch_size=1)
    # What joblib says when an error leaves tasks that nobody waits for any more.
    warnings.filterwarnings("ignore", r"\d+ tasks (which were still|have been succ)", UserWarning)
    work = (delayed(process)(task, parts / f"{index}-") for index, task in enumerate(tasks))
    try:
        with _uninterrupted_children():
            results = parallel(work)
        yield from results
    except BrokenProcessPool:
        raise UserError(
            "a worker was killed, most likely for want of memory; try fewer with --jobs"
        ) from None


@contextmanager
def _uninterrupted_children() -> Iterator[None]:
    """Start processes in the block that are never interrupted; this one is, after it.

    On Ctrl-C the terminal interrupts every process: each worker would print a traceback.
    """
    resource_tracker.ensure_running()  # whose start would lift the block
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _process(
    kind: str,
    graphs: Graphs,
    settings: dict[str, Any],
    keep_going: bool,
    task: list[RawFile],
    part: Path,
) -> list[Result]:
    """Write the part of the cache that is some files'; return the result of each."""
    results: list[Result] = []
    with CacheWriter(part.parent, kind, part.name) as writer:
        for file in task:
            first, sources = len(writer.rows), preprocess_of(kind).files(file.path)
            try:
                for graph, before in graphs(file.path, file.split, settings):
                    writer.add(graph, {"source": file.path.name, **before})
                fingerprint = fingerprint_files(sources, file.path.parent)
            except MemoryError:
                raise UserError(f"out of memory with {file.path}; try fewer with --jobs") from None
            except DataError as error:
                if not keep_going or isinstance(error, UnreadableError):
                    raise
                results.append(error)
            else:
                rows = writer.rows[first:]
                results.append([{**row, "fingerprint": fingerprint} for row in rows])
    return results


def _manifest(
    writer: CacheWriter, skipped: list[Skipped], settings: dict[str, Any]
) -> dict[str, Any]:
    """Return the manifest of a cache; its fingerprint is of its content, whatever code wrote it."""
    sources = {row["graph"]: [row["split"], row["fingerprint"]] for row in writer.rows}
    content = {"sources": sources, "arrays": writer.digits, "settings": settings}
    return {
        "fingerprint": fingerprint_value(content),
        "settings": settings,
        "skipped": [skip.entry() for skip in skipped],
    }
