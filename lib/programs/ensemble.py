"""Predictions of all folds for tensor programs, blended: their table and its errors."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lib.cache.reader import Cache
from lib.files.artifacts import atomic_file
from lib.files.results import SPLIT_OF
from lib.files.terminal import table
from lib.programs.folds import Pairs, sides_of_fold
from lib.programs.metrics import LATENCY_METRICS, NOISE, Predicted, measure_groups, measure_task
from lib.programs.predictions import BLENDED, nearest, read_predictions
from lib.programs.settings import ProgramCollection
from lib.ranking.metrics import mean_metrics
from lib.scoring.ensemble import Blended, Ensemble, Write
from lib.scoring.folds import Folds, folds_read_by
from lib.settings import Settings

WRITTEN = ("validation", "test")  # sections that the table has
DIGITS = 6  # of a prediction in the table
SHOWN = (*LATENCY_METRICS, NOISE)
NEAREST = nearest(pl.col("score"), pl.col("variance"))


def pairs_of(cache: Cache) -> pl.DataFrame:
    """Return ``task, program, device, config, latency`` of every pair: ``config`` is its number in
    the task."""
    names = [device["name"] for device in cache.manifest["devices"]]
    frames = []
    for name in cache.names("train", "valid", "test"):
        task = cache.graph(name)
        columns = {
            "task": [name] * len(task.owner),
            "program": task.program[task.owner],
            "device": [names[number] for number in task.device],
            "config": np.arange(len(task.owner)),
            "latency": task.seconds,
        }
        frames.append(pl.DataFrame(columns))
    return pl.concat(frames)


def expected_of(pairs: pl.DataFrame, sides: Mapping[str, Pairs]) -> pl.DataFrame:
    """Return ``split, task, program, device`` of what one fold predicts."""
    predicted = [
        pl.DataFrame({"config": np.flatnonzero(mask)}).select(
            pl.lit(side).alias("split"), pl.lit(name).alias("task"), "config"
        )
        for side, own in sides.items()
        for name, mask in own.items()
    ]
    return pl.concat(predicted).join(pairs, on=["task", "config"]).drop("config", "latency")


def read_folds(folder: Path, cache: Cache, settings: ProgramCollection, count: int | None) -> Folds:
    """Read what the folds left, as :func:`lib.scoring.folds.read_folds`.

    Scores are logarithms of seconds.
    """
    pairs = pairs_of(cache)

    def read(fold: int, path: Path) -> pl.DataFrame:
        """Return the scores of one fold."""
        expected = expected_of(pairs, sides_of_fold(cache, fold, settings))
        predictions = read_predictions(path, expected, ["train"])
        return predictions.join(pairs, on=["task", "program", "device"]).select(
            "split", "config", graph="task", score=pl.col("prediction").log()
        )

    return folds_read_by(read, folder, cache, settings, count)


def evaluate_all(
    blended: Blended, cache: Cache, apart: pl.DataFrame | None, settings: Settings
) -> dict[str, dict[str, Any]]:
    """Return metrics of each task and their means, and of all pairs together, by section.

    Args:
        blended: ``graph, config, score, variance`` of each section.
        cache: of the programs.
        apart: measurements that are kept apart, of which tensor programs have none.
        settings: of the model.
    """
    devices = [device["name"] for device in cache.manifest["devices"]]
    sections = {}
    for section, frame in blended.items():
        parts = frame.sort("graph", "config").partition_by("graph", as_dict=True)
        predictions = []
        for (name,), part in sorted(parts.items()):
            task = cache.graph(name)
            pairs = np.zeros(len(task.owner), bool)
            pairs[part["config"].to_numpy()] = True
            seconds = part.select(NEAREST).to_series().to_numpy()
            predictions.append(Predicted(task.restricted(pairs), seconds))
        graphs = {p.task.name: measure_task(p.seconds, p.task.seconds, p.task) for p in predictions}
        sections[section] = {}
        if graphs:
            sections[section] = {
                "mean": mean_metrics(list(graphs.values())),
                "graphs": graphs,
                "groups": measure_groups(predictions, devices),
            }
    return sections


def prediction_table(blended: Mapping[str, pl.DataFrame], cache: Cache) -> pl.DataFrame:
    """Return a row for each program on each device that no network which predicts it has seen.

    A prediction is the one that is nearest in relative terms, see :func:`nearest`; ``in_sums`` is
    the mean of the logarithms, as :func:`lib.programs.devices.predicted_seconds` has it.
    """
    pairs, frames = pairs_of(cache), []
    for section in WRITTEN:
        frame = (
            blended[section]
            .rename({"graph": "task"})
            .with_columns(
                split=pl.lit(SPLIT_OF[section]),
                prediction=NEAREST.round_sig_figs(DIGITS),
                in_sums=pl.col("score").exp().round_sig_figs(DIGITS),
            )
        )
        frame = frame.with_columns(pl.col("config").cast(pairs["config"].dtype))
        frames.append(frame.join(pairs, on=["task", "config"]).select(*BLENDED))
    return pl.concat(frames).sort("split", "task", "program", "device")


def summary_table(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Return errors over pairs, of each section, device and operator, as aligned text."""
    rows = []
    for section, numbers in sections.items():
        for by, groups in numbers.get("groups", {}).items():
            for name, group in groups.items():
                title = section if by == "all" else f"  {name}"
                texts = [metric.plain(group.get(metric.key)) for metric in SHOWN]
                rows.append([title, f"{int(group['pairs']):,}", *texts])
    return table(rows, ["", "latencies", *(metric.heading for metric in SHOWN)])


def predictions(blended: Blended, cache: Cache, settings: Settings) -> tuple[Write, str]:
    """Return a function that writes the table of predictions, and its contents in words."""
    rows = prediction_table(blended, cache)

    def write(path: Path) -> None:
        """Write the table, whole or not at all."""
        with atomic_file(path) as temporary:
            rows.write_csv(temporary)

    return write, f"{len(rows):,} latencies of {rows['task'].n_unique()} tasks"


ENSEMBLE = Ensemble(
    read=read_folds,
    order=lambda blended, cache: blended,  # seconds say more
    table=predictions,
    evaluate=evaluate_all,
    summary=lambda sections, name: summary_table(sections),
)
