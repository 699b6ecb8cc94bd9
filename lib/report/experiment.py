"""The results in a collection's folder, read for people: whatever is absent is left out."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from lib.files.errors import DataError, UserError, in_one_line
from lib.files.parquet import read_parquet
from lib.files.results import read_fold_metrics, read_metrics
from lib.files.schema import expect
from lib.ranking.folds import fold_number
from lib.ranking.measures import Measures, measures_of
from lib.report.statistics import Mean, mean
from lib.runs.code import STAGES
from lib.runs.identity import RECORDS, data_in
from lib.runs.stage import read_record

SECTIONS = ("test", "validation", "training")  # of metrics.json, what counts most first


@dataclass(frozen=True)
class Experiment:
    """The results of one collection.

    Attributes:
        folder: ``<outputs>/<collection>``.
        metrics: stage 4's, possibly empty.
        folds: each trained fold's ``metrics.json``.
        histories: each trained fold's, a row an epoch.
        stages: records of the stages' last runs, by ``stage`` or ``stage_<fold>``.
    """

    folder: Path
    metrics: dict[str, Any]
    folds: dict[int, dict[str, Any]]
    histories: dict[int, pl.DataFrame]
    stages: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def collection(self) -> str:
        """Its name."""
        return self.metadata.get("collection") or self.folder.name

    @property
    def kind(self) -> Measures:
        """The numbers that count for the collection."""
        return measures_of(self.collection, self.metadata.get("hardware", "cpu"))

    @property
    def metadata(self) -> dict[str, Any]:
        """Stage 4's settings, data fingerprint and versions, or else a fold's."""
        settings = self.metrics.get("settings") or next(iter(self.folds.values()), {})
        return dict(settings)

    @property
    def data(self) -> str:
        """The cache's fingerprint; empty if unknown."""
        return self.metadata.get("data", "")

    @property
    def blended(self) -> list[int]:
        """The folds that stage 4 blended, best first."""
        return list(self.metrics.get("folds", {}).get("blended", []))

    @property
    def measured(self) -> list[int]:
        """The folds that stage 4 measured, each on its own validation graphs."""
        return _measured_by_stage_4(self.metrics) or sorted(self.folds)

    def runs_of(self, stage: str) -> list[dict[str, Any]]:
        """Return the records of a stage's last runs."""
        return [run for run in self.stages.values() if run.get("stage") == stage]

    @property
    def headline(self) -> str:
        """The section that counts most among those with numbers; empty if there is none."""
        return next((name for name in SECTIONS if self.metrics_of(name)), "")

    def metrics_of(self, section: str) -> dict[str, dict[str, float]]:
        """Each graph's numbers in one section of ``metrics.json``."""
        return dict((self.metrics.get(section) or {}).get("graphs", {}))

    @property
    def left_out(self) -> list[str]:
        """The graphs that stage 4 left out, since they have no order."""
        sections = (self.metrics.get(section) or {} for section in SECTIONS)
        return sorted({name for section in sections for name in section.get("left_out", [])})

    def values(self, section: str, key: str) -> dict[str, float]:
        """One number of each graph that has it."""
        return {name: row[key] for name, row in self.metrics_of(section).items() if key in row}

    def mean(self, section: str, key: str) -> Mean:
        """The mean of one number over the graphs that have it."""
        return mean(list(self.values(section, key).values()))

    def settings(self) -> dict[str, Any]:
        """Each setting's value; stages refuse what others made with another one."""
        values = sorted(self.metadata.items())
        plain = {k: value for k, value in values if not isinstance(value, dict | list)}
        return {key: value for key, value in plain.items() if key not in NO_SETTINGS}

    def name(self) -> str:
        """The experiment's, as stage 4 or a fold recorded it; empty if unknown."""
        order = ("ensemble", *(k for k in sorted(self.stages) if k.startswith("train_")))
        return next((self.stages[k]["experiment"] for k in order if k in self.stages), "")


NO_SETTINGS = ("data", "identity", "fold", "collection", "checksum", "measured")


def read_experiment(
    folder: Path, metrics_file: Path | None = None, every: bool = False
) -> Experiment:
    """Read a collection's folder.

    Args:
        folder: the folder.
        metrics_file: stage 4's numbers, where they are not there yet.
        every: also the folds there that are not stage 4's, such as of a training with others.

    Raises:
        UserError: if there is no such folder.
        DataError: if a file of it cannot be read.
    """
    if not folder.is_dir():
        raise UserError(f"{folder}: no such folder; outputs of a collection are expected there")
    paths = {fold_number(path.parent.name): path for path in folder.glob("fold_*/metrics.json")}
    path = metrics_file or folder / "metrics.json"
    metrics = read_metrics(path) if path.exists() else {}
    numbers = sorted(paths.keys() - {None})
    measured = [] if every else _measured_by_stage_4(metrics)
    folds = {k: read_fold_metrics(paths[k]) for k in numbers if k in measured or not measured}
    histories = {fold: _history(folder / f"fold_{fold}" / "history.parquet") for fold in folds}
    data = (metrics.get("settings") or next(iter(folds.values()), {})).get("data")
    caches = folder.parent.glob(f"{re.split('[@+]', folder.name)[0]}/cache*")
    cache = next((path for path in caches if data and data_in(path) == data), folder / "cache")
    experiment = Experiment(
        folder=folder,
        metrics=metrics,
        folds=folds,
        histories={fold: history for fold, history in histories.items() if history is not None},
        stages=_records(folder, cache, set(numbers) - set(folds)),
    )
    expected = {str: {experiment.kind.main.key: float}}  # which graphs are ranked by
    for name in SECTIONS:
        advice = "delete it, and run 04_ensemble.py again"
        path = folder / "metrics.json"
        expect(experiment.metrics_of(name), expected, path, f"{name}.graphs", advice)
    return experiment


def _measured_by_stage_4(metrics: Mapping[str, Any]) -> list[int]:
    """The folds that stage 4 measured, each on its own validation graphs."""
    by_fold = (v for k, v in metrics.get("folds", {}).items() if k.startswith("validation_"))
    return sorted(map(int, next(by_fold, ())))


def _records(folder: Path, cache: Path, others: Iterable[int]) -> dict[str, dict[str, Any]]:
    """Return the records of the stages that made these results, stage 1's among them, without those
    of ``others``, which are folds.

    A record only describes a run: a record that cannot be read is left out, with a warning.
    """
    first = cache.parent / RECORDS / f"{cache.name.replace('cache', 'preprocess')}.json"
    ends = tuple(f"_{fold}" for fold in others)
    paths = [p for p in (folder / RECORDS).glob("*.json") if not _of_stage_1(p)]
    later = [p for p in paths if not p.stem.endswith(ends)]
    records = {}
    for path in sorted([first, *later] if first.exists() else later):
        try:
            name = STAGES[0] if _of_stage_1(path) else path.stem
            records[name] = read_record(path)
        except DataError as error:
            print(f"warning: left out: {in_one_line(error)}", file=sys.stderr)
    return records


def _of_stage_1(path: Path) -> bool:
    return path.stem.startswith(STAGES[0])


def _history(path: Path) -> pl.DataFrame | None:
    """Return the numbers of each epoch, whatever their names; ``None`` if there is no file."""
    if not path.exists():
        return None
    advice = "delete it, and train again"
    frame = read_parquet(path, {"epoch": "number"}, advice, all_columns=True)
    for name, dtype in frame.schema.items():
        if not dtype.is_numeric():
            raise DataError(path, name, dtype, f"numbers; {advice}")
    return frame
