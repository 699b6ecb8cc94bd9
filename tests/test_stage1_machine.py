"""Stage 1 where the machine fails and no file does: one line, nothing written, no graph lost."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from lib.cache.manifest import read_manifest
from lib.cache.reader import Cache
from lib.files.errors import DataError, UserError
from lib.preprocess import collection
from lib.preprocess.collection import RawFile, write_cache
from lib.preprocess.stage import Preprocess
from tests.builders import COLLECTION
from tests.stages import command, ran
from tests.synthetic import write_collection

TRAIN = Path("npz/layout/xla/default/train")
GRAPHS = 15


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    found = tmp_path_factory.mktemp("root")
    write_collection(found, COLLECTION, train=11, valid=2, test=2)
    return found


def stage(
    root: Path,
    outputs: Path,
    *flags: object,
    limit: tuple[int, int] | None = None,
    anew: bool = False,
):
    """Stage 1 as a user runs it, with a limit that is put on the process."""
    words = command("01_preprocess.py", "--data", root, "--outputs", outputs, *flags, anew=anew)
    limited = (lambda: resource.setrlimit(limit[0], (limit[1], limit[1]))) if limit else None
    return ran(words, preexec_fn=limited)


def check_told(done: subprocess.CompletedProcess, outputs: Path, reason: str) -> None:
    """One line that names the cache and not a raw file, and nothing written."""
    path = outputs / COLLECTION / "cache"
    assert done.stderr == f"error: {path}: {reason}\n"
    assert (done.returncode, done.stdout) == (2, "")
    assert not [file for file in outputs.rglob("*") if file.is_file()]
    assert not list(outputs.rglob(".partial*"))


@pytest.mark.parametrize(
    ("size", "flags"),
    [(1, ["--jobs", 2]), (100_000, ["--jobs", 1])],
)
def test_a_disk_that_is_full_drops_no_graph(root, tmp_path, size, flags):
    """A limit on the size of files: for joblib's own (1 B), and for the joined ones."""
    flags = [*flags, "--keep-going"]
    limit = resource.RLIMIT_FSIZE, size
    done = stage(root, tmp_path, *flags, limit=limit, anew=size == 1)  # when joblib is imported
    check_told(done, tmp_path, "File too large")
    assert stage(root, tmp_path, "--jobs", 1).returncode == 0  # there is space again
    assert len(Cache(tmp_path / COLLECTION / "cache").table) == GRAPHS


def test_too_few_open_files_drop_no_graph(root, tmp_path):
    limit = resource.RLIMIT_NOFILE, 20
    done = stage(root, tmp_path, "--jobs", 1, "--keep-going", limit=limit)
    check_told(done, tmp_path, "Too many open files")


def test_a_missing_file_is_no_bad_file(tmp_path):
    """A link to a disk that is not there."""
    data = tmp_path / "data"
    write_collection(data, COLLECTION, train=2, valid=1, test=1)
    victim = data / TRAIN / "far.npz"
    victim.symlink_to(tmp_path / "disk" / "far.npz")
    done = stage(data, tmp_path / "outputs", "--jobs", 1, "--keep-going")
    expected = f"error: {victim}: No such file or directory; expected a readable file\n"
    assert (done.returncode, done.stderr) == (2, expected)
    assert not [file for file in (tmp_path / "outputs").rglob("*") if file.is_file()]


def test_a_bad_file_ends_the_stage_or_is_skipped_and_named(tmp_path):
    """Nobody waits for who might write to a pipe."""
    data, cache = tmp_path / "data", tmp_path / "outputs" / COLLECTION / "cache"
    write_collection(data, COLLECTION, train=2, valid=1, test=1)
    os.mkfifo(data / TRAIN / "a.npz")
    (data / TRAIN / "b.npz").write_bytes(b"no zip")
    said = f"{data / TRAIN / 'a.npz'}: file: found a pipe, expected a regular file\n"
    done = stage(data, tmp_path / "outputs", "--jobs", 1)  # of two, either may come first
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {said}")
    assert not cache.exists()
    done = stage(data, tmp_path / "outputs", "--jobs", 2, "--keep-going")
    assert done.returncode == 0
    first, second = done.stderr.splitlines(keepends=True)
    assert first == f"skipped: {said}"
    assert second.startswith(f"skipped: {data / TRAIN / 'b.npz'}: file: found BadZipFile ")
    assert done.stdout.splitlines()[-1].endswith(f"4 graphs in {cache}/, 2 bad files skipped")
    assert len(Cache(cache).table) == 4
    assert read_manifest(cache)["skipped"][0] == {
        "split": "train",
        "file": "a.npz",
        "why": "file: found a pipe, expected a regular file",
    }


def failing(error: BaseException):
    """A reader of raw files that fails so."""

    def read(*_: object):
        raise error

    return read


@pytest.mark.parametrize("keep_going", [False, True])
def test_a_lack_of_memory_is_no_bad_file(tmp_path, monkeypatch, keep_going):
    monkeypatch.setattr(
        collection, "preprocess_of", lambda kind: Preprocess(failing(MemoryError()))
    )
    files = [RawFile(tmp_path / f"{name}.npz", "train") for name in "ab"]
    with pytest.raises(UserError, match=r"out of memory with .*a\.npz; try fewer with --jobs") as e:
        write_cache(tmp_path / "cache", files, {"hops": 1}, 1, keep_going)
    assert not isinstance(e.value, DataError)
    assert list(tmp_path.iterdir()) == []
