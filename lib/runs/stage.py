"""One run of a stage: its flags, how long it took, and its W&B run.

    with one_line_errors(), Stage() as stage:
        main(stage)

When ``main`` has called :meth:`Stage.begin`, a record of the run is left in
``<outputs>/<collection>/stages/``, for the report, `make status` and `make compare`: together with
the results, or when ``main`` comes to its end.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any

from lib.files.artifacts import (
    atomic_files,
    check_place,
    fingerprint_value,
    read_json,
    write_json,
)
from lib.files.locks import only_writer
from lib.files.named import named
from lib.files.schema import expect
from lib.runs.identity import Making
from lib.runs.ingredients import part_of, record_path
from lib.runs.provenance import commit, machine, versions
from lib.runs.tracking import Tracker
from lib.settings import Settings, described
from lib.systems import SYSTEMS

NAME_DIGITS = 6  # of an experiment that nobody has named
RECORD = {  # what is read of one
    "stage": str,
    "experiment": str,
    "seconds": float,
    "earlier_seconds?": float,
    "peak_memory_bytes": float,
    "settings?": dict,
    "data?": str,
    "run?": str,
    "command?": [str],  # the flags of the run
    "commit?": str,  # of the code
    "origins?": {str: str},  # of settings that are no defaults: where their values come from
    "identity?": str,  # of the results, see lib/runs/identity.py
    "made_from?": dict,
    "raw?": {str: [int]},  # of stage 1: size and time of each raw file
    "contents?": {str: str},  # and fingerprint
    "machine?": {"processor": str, "system": str, "cores": int},
}
SAME_RESULT = ("threads", "collection")  # settings that make no other experiment


class Stage:
    """A context manager around a stage's ``main``; nothing happens before :meth:`begin`."""

    def __init__(self) -> None:
        self.tracker: Tracker | None = None
        self.path: Path | None = None
        self.about: dict[str, Any] = {}
        self.recorded: dict[str, Any] = {}
        self.locks = ExitStack()

    def alone(self, outputs: Path, artifact: Path, *files: Path) -> bool:
        """Let no other run write what this stage writes, until it ends; wait for one that does.

        Args:
            outputs: where results go.
            artifact: what the stage writes, a path below ``outputs``.
            files: that it will write; if one cannot be, that is reported now, not after the work.

        Returns:
            Whether there was one to wait for.

        Raises:
            OSError: if one of ``files`` cannot be written.
        """
        for file in files:
            check_place(file)
        return self.locks.enter_context(only_writer(outputs, artifact))

    def begin(self, name: str, making: Making, data: str, fold: int | None = None) -> Tracker:
        """Say what runs; returns its W&B run.

        Args:
            name: ``preprocess``, ``train``, ``infer`` or ``ensemble``.
            making: what its results are made from.
            data: the cache's fingerprint.
            fold: which, if the stage runs once a fold.
        """
        outputs, settings, part = making.outputs, making.settings, part_of(name, fold)
        chosen = described(settings)
        experiment = settings.experiment or experiment_name(chosen, data)
        self.path = record_path(outputs, part, settings)
        check_place(self.path)
        made_from = making.made_from(name, fold)
        identity = fingerprint_value(made_from)
        self.about |= _about(name, chosen, data, experiment)
        self.about |= {"identity": identity, "made_from": made_from}
        self.about |= {"fold": fold, "run": _run_id(part, settings, data, identity)}
        about = {k: v for k, v in self.about.items() if k not in ("settings", "made_from")}
        self.tracker = Tracker(
            job_type=name,
            group=f"{settings.results.partition('+')[0]}-{experiment}",
            name=f"{name} {settings.results}" + ("" if fold is None else f" fold {fold}"),
            identity=self.about["run"],
            config={**chosen, **about},
            folder=Path(outputs),
            tags=_tags(settings, data, fold),
            bests=_bests(settings) if name == "train" else {},
        )
        return self.tracker.start()

    def record(self) -> dict[str, Any]:
        """What is known of the run by now; seconds count from the start of the process."""
        return {
            **self.about,
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
            "seconds": round(process_seconds(), 2),
            "peak_memory_bytes": peak_memory(),
        }

    @contextmanager
    def results(self, *files: Path) -> Iterator[list[Path]]:
        """As :func:`lib.files.artifacts.atomic_files`; none takes its place without the record."""
        with atomic_files(*files) as temporary:
            yield temporary
            self._write_record()

    def note(self, **values: Any) -> None:
        """Add to the record, before the run begins or after."""
        self.about |= values

    def __enter__(self) -> Stage:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self.locks:
            if self.path is None or self.tracker is None:
                return
            if kind is None:
                if not self.recorded:
                    self._write_record()
                totals = {key: self.recorded[key] for key in ("seconds", "peak_memory_bytes")}
                self.tracker.summarize(totals)
            self.tracker.finish(kind is not None)

    def _write_record(self) -> None:
        self.recorded = self.record()
        write_json(self.path, self.recorded)  # type: ignore[arg-type]


def _about(name: str, chosen: Mapping[str, Any], data: str, experiment: str) -> dict[str, Any]:
    """What a stage's record says of a run before it ends."""
    return {
        "stage": name,
        "experiment": experiment,
        "settings": chosen,
        "data": data,
        "command": sys.argv[1:],
        "commit": commit(),
        "versions": versions(),
        "machine": machine(),
    }


def _run_id(part: str, settings: Settings, data: str, identity: str) -> str:
    """The run's id in W&B, where one has letters, digits and dashes."""
    learned = {"settings": described(settings), "data": data}
    digits = fingerprint_value({**learned, "made": identity})
    results = settings.results.replace("@", "-").replace("+", "-")
    return f"{results}-{part.replace('_', '-')}-{digits[:12]}"


def experiment_name(settings: Mapping[str, Any], data: str) -> str:
    """What runs are grouped by, within a collection, where nobody has named it.

    A short fingerprint of what the network was trained with and on, so that another learning rate
    is another experiment. Stage 1's run is in the group of the first that its cache was made for.
    """
    changing = {key: value for key, value in settings.items() if key not in SAME_RESULT}
    return fingerprint_value({"settings": changing, "data": data})[:NAME_DIGITS]


def _tags(settings: Settings, data: str, fold: int | None) -> list[str]:
    """What W&B can filter runs of all groups by: all runs on the same cache, of a model, ..."""
    tags = [f"data-{data[:NAME_DIGITS]}", settings.collection, settings.model]
    return tags if fold is None else [*tags, f"fold-{fold}"]


def _bests(settings: Settings) -> dict[str, str]:
    """Whether the highest or the lowest point of a training's curve is its best, by its name."""
    metrics = named(SYSTEMS[settings.kind].ranking).metrics
    ways = {f"validation/{m.key}": "max" if m.higher_is_better else "min" for m in metrics}
    return ways | {"train/loss": "min"}


def read_record(path: Path) -> dict[str, Any]:
    """What a stage left of a run; :class:`lib.files.errors.DataError` if that is no such record."""
    return expect(read_json(path), RECORD, path, advice="what a stage records")


def process_seconds() -> float:
    """Wall-clock seconds since this process began, its imports included."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    up = float(Path("/proc/uptime").read_text().split()[0])
    return up - int(fields[19]) / os.sysconf("SC_CLK_TCK")


def peak_memory() -> int:
    """Bytes that this process has held at most.

    Not what ``getrusage`` says: that counts what the process that started this one had held.
    """
    peak = re.search(r"VmHWM:\s*(\d+) kB", Path("/proc/self/status").read_text())
    return int(peak[1]) * 1024 if peak else 0
