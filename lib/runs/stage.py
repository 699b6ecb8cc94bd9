"""A run of a stage: its command line, its lock, whether it has anything to do, and its record.

    if __name__ == "__main__":
        run("train", main, __doc__)

After :meth:`Stage.begin` a record of the run is left in ``<outputs>/<collection>/stages/``, for the
report, ``make status`` and ``make compare``: together with the results, or at the end.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from lib import settings
from lib.files.artifacts import (
    atomic_files,
    check_place,
    fingerprint_value,
    read_json,
    write_json,
)
from lib.files.errors import one_line_errors
from lib.files.locks import in_use, only_writer
from lib.files.named import named
from lib.files.schema import expect
from lib.runs.code import ROOT, SCRIPTS
from lib.runs.identity import Run, part_of, record_path, state_of
from lib.runs.provenance import commit, machine, versions
from lib.runs.tracking import Tracker
from lib.settings import Resolved, Settings, described
from lib.systems import SYSTEMS

NAMED = 3  # files that a line names
NAME_DIGITS = 6  # of an experiment that nobody has named
RECORD = {  # the parts of one that the report reads
    "stage": str,
    "experiment": str,
    "seconds": float,
    "earlier_seconds?": float,
    "peak_memory_bytes": float,
    "command?": [str],  # the flags of the run
    "commit?": str,  # of the code
    "machine?": {"processor": str, "system": str, "cores": int},
}
SAME_RESULT = ("threads", "collection")  # settings that make no other experiment


def run(name: str, main: Callable[[Stage], None], description: str | None) -> None:
    """Run a stage, unless its results are there already.

    Args:
        name: ``preprocess``, ``train``, ``infer`` or ``ensemble``.
        main: does the work.
        description: for ``--help``.
    """
    with one_line_errors():
        arguments = parser_of(name, description or "").parse_args()
        with Stage(name, arguments, settings.resolve(arguments)) as stage:
            if not stage.up_to_date():
                main(stage)


@cache
def stage_script(stage: str) -> ModuleType:
    """Return a stage script as a module, for those who do as it does; nothing is run."""
    spec = importlib.util.spec_from_file_location(f"stage_{stage}", ROOT / SCRIPTS[stage])
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    sys.modules[module.__name__] = module
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


def parser_of(stage: str, description: str = "") -> argparse.ArgumentParser:
    """Return the command line of a stage: all settings of its model, and its own flags."""
    parser = settings.parser(description)
    if stage == "preprocess":
        cores = len(os.sched_getaffinity(0))
        parser.add_argument("--jobs", type=int, default=cores, help="worker processes (one a core)")
        parser.add_argument("--keep-going", action="store_true", help="name bad files, skip them")
    if stage in ("train", "infer"):
        help = "whose validation graphs are left out of training, from 0"
        parser.add_argument("--fold", type=int, required=True, help=help)
    if stage in ("train", "ensemble"):
        help = "how many are trained and blended, from fold 0 on (default: all)"
        parser.add_argument("--folds", type=int, help=help)
    return parser


class Stage:
    """A context manager around the work of a stage.

    Args:
        name: ``preprocess``, ``train``, ``infer`` or ``ensemble``.
        arguments: of :func:`parser_of`.
        resolved: the settings that they mean.

    Attributes:
        settings: of the model.
        fold: number, if the stage runs once a fold.
        run: what its results are made from, and where they are.
        files: that it writes.
    """

    def __init__(self, name: str, arguments: argparse.Namespace, resolved: Resolved):
        self.name, self.arguments, self.resolved = name, arguments, resolved
        self.settings, self.fold = resolved.settings, getattr(arguments, "fold", None)
        keep_going, folds = (getattr(arguments, key, None) for key in ("keep_going", "folds"))
        self.run = Run(arguments.outputs, self.settings, arguments.data, folds, bool(keep_going))
        self.files = self.run.files(name, self.fold)
        self.path = record_path(self.run.outputs, part_of(name, self.fold), self.settings)
        self.tracker: Tracker | None = None
        self.metadata: dict[str, Any] = {}
        self.recorded: dict[str, Any] = {}
        self.locks = ExitStack()

    def up_to_date(self) -> bool:
        """Lock the results, and return whether they are what this run would make; then say so.

        Another run of the stage that writes them is waited for.

        Raises:
            UserError: if they are not, and there are no raw data to make them from.
            OSError: if they cannot be written: now, not after the work.
        """
        for file in (*self.files, self.path):
            check_place(file)
        shared = self.run.cache if self.name == "preprocess" else self.files[0]
        self.locks.enter_context(only_writer(self.run.outputs, shared))
        if self.name != "preprocess":  # no stage 1 replaces what is in use
            for cache in (self.settings.cache, *self.settings.others.values()):
                if (folder := self.run.outputs / cache).is_dir():
                    self.locks.enter_context(in_use(folder))
        whole = self.name == "preprocess"
        what = self.settings.collection if whole else self.settings.results
        of_fold = "" if self.fold is None else f" fold {self.fold}"
        if not self.run.up_to_date(self.name, self.fold):
            self.resolved.root()
            if self.name == "train" and (edited := self._edited()):
                keeps = "EXPERIMENT=name (--experiment) keeps them"
                print(f"train: {what}{of_fold}: replaces those of other {edited}; {keeps}")
            return False
        for file in self.files:  # Make sees by their time that nothing is to be done
            if self.name != "preprocess":  # folds go by the time of the manifest
                os.utime(file)
        if self.name == "preprocess":
            record = {**self.run.record(self.name), "raw": self.run.raw_files}
            write_json(self.path, record)
        elif self.name == "ensemble":
            files = state_of(self.files, self.name)
            write_json(self.path, {**self.run.record(self.name), "files": files})
        where = f"{self.files[0].parent}/" if whole or len(self.files) > 1 else self.files[0]
        print(f"{self.name}: {what}{of_fold}: up to date, {where}")
        return True

    def _edited(self) -> str:
        """Return the code that was another when the results that are there were made; empty if none
        are there or none was."""
        made = self.run.record(self.name, self.fold).get("made_from")
        old, new = made and made.get("code"), self.run.made_from(self.name, self.fold)["code"]
        if not old or not self.files[0].exists():
            return ""
        names = sorted(name for name in old | new if old.get(name) != new.get(name))
        return ", ".join(names[:NAMED]) + f" and {len(names) - NAMED} more" * bool(names[NAMED:])

    def begin(self, data: str) -> None:
        """Begin the record; ``data`` is the cache's fingerprint."""
        run, settings = self.run, self.settings
        values = described(settings)
        experiment = settings.experiment or experiment_name(values, data)
        made_from = run.made_from(self.name, self.fold)
        self.metadata |= {
            "stage": self.name,
            "experiment": experiment,
            "settings": values,
            "data": data,
            "command": sys.argv[1:],
            "commit": commit(),
            "versions": versions(),
            "machine": machine(),
            "identity": fingerprint_value(made_from),
            "made_from": made_from,
            "fold": self.fold,
        }

    def track(self) -> Tracker:
        """Begin the W&B run of a stage that has begun, and return it."""
        settings, values = self.settings, self.metadata["settings"]
        part, identity = part_of(self.name, self.fold), self.metadata["identity"]
        self.metadata["run"] = _run_id(part, settings, identity)
        shown = {k: v for k, v in self.metadata.items() if k not in ("settings", "made_from")}
        of_fold = "" if self.fold is None else f" fold {self.fold}"
        self.tracker = Tracker(
            job_type=self.name,
            group=f"{settings.results.partition('+')[0]}-{self.metadata['experiment']}",
            name=f"{self.name} {settings.results}{of_fold}",
            id=self.metadata["run"],
            config={**values, **shown},
            dir=str(self.run.outputs),
            tags=_tags(settings, self.metadata["data"], self.fold),
            bests=_bests(settings) if self.name == "train" else {},
            announces=self.name == "train" and self.fold == 0,
        )
        return self.tracker.start()

    def result_metadata(self, data: str) -> dict[str, Any]:
        """Return what a result states of itself: settings, data, identity, versions."""
        metadata = {**described(self.settings), "data": data, "versions": versions()}
        return {**metadata, "identity": self.run.identity(self.name, self.fold)}

    def record(self) -> dict[str, Any]:
        """Return what is known of the run by now; seconds count from the start of the process."""
        return {
            **self.metadata,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(process_seconds(), 2),
            "peak_memory_bytes": peak_memory(),
        }

    @contextmanager
    def results(self) -> Iterator[list[Path]]:
        """Yield a temporary path for each of ``files``; all take their places, or none does.

        None does without the record.
        """
        with atomic_files(*self.files) as temporary:
            yield temporary
            names = [file.name for file in self.files]
            states = state_of(temporary, self.name).values()
            self._write_record(files=dict(zip(names, states, strict=True)))

    def note(self, **values: Any) -> None:
        """Add to the record."""
        self.metadata |= values

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        with self.locks:
            if self.metadata and kind is None and not self.recorded:
                self._write_record()
            if self.tracker is not None:
                if kind is None:
                    totals = {key: self.recorded[key] for key in ("seconds", "peak_memory_bytes")}
                    self.tracker.summarize(totals)
                self.tracker.finish(kind is not None)

    def _write_record(self, **more: Any) -> None:
        self.recorded = {**self.record(), **more}
        write_json(self.path, self.recorded)


def _run_id(part: str, settings: Settings, identity: str) -> str:
    """Return the run's id in W&B, where one has letters, digits and dashes."""
    results = settings.results.replace("@", "-").replace("+", "-")
    return f"{results}-{part.replace('_', '-')}-{identity[:12]}"


def experiment_name(settings: Mapping[str, Any], data: str) -> str:
    """Return the name of an experiment that nobody has named: W&B groups runs by it.

    A short fingerprint of what the network was trained with and on, so that another learning rate
    is another experiment.
    """
    changing = {key: value for key, value in settings.items() if key not in SAME_RESULT}
    return fingerprint_value({"settings": changing, "data": data})[:NAME_DIGITS]


def _tags(settings: Settings, data: str, fold: int | None) -> list[str]:
    """Return tags, by which W&B filters runs of all groups: by cache, model, fold."""
    tags = [f"data-{data[:NAME_DIGITS]}", settings.collection, settings.model]
    return tags if fold is None else [*tags, f"fold-{fold}"]


def _bests(settings: Settings) -> dict[str, str]:
    """Return by the name of each curve whether its highest or lowest point is its best."""
    metrics = named(SYSTEMS[settings.kind].ranking).metrics
    ways = {f"validation/{m.key}": "max" if m.higher_is_better else "min" for m in metrics}
    return ways | {"train/loss": "min"}


def read_record(path: Path) -> dict[str, Any]:
    """Return the record of a run; raises DataError if the file is none."""
    return expect(read_json(path), RECORD, path, advice="what a stage records")


def process_seconds() -> float:
    """Return wall-clock seconds since this process began, its imports included."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    up = float(Path("/proc/uptime").read_text().split()[0])
    return up - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def peak_memory() -> int:
    """Return the most bytes that this process has held.

    Not what ``getrusage`` says: that counts what the process that started this one had held.
    """
    peak = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(peak[1]) * 1024 if peak else 0
