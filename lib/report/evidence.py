"""Predictions beside measurements, read back from the scores that stage 3 wrote."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from lib.files.results import SPLIT_OF
from lib.files.scores import read_score_rows
from lib.ranking.blending import KEYS, blend_frames
from lib.ranking.truth import column_by_graph
from lib.report.experiment import Experiment
from lib.report.figures import ranked


@dataclass(frozen=True, eq=False)
class Example:
    """One graph's predictions and measurements.

    Attributes:
        place: ``best``, ``median`` or ``worst`` of its section.
        graph: its name.
        value: the number that counts.
        scores: (c,), those that ``value`` was computed from.
        runtimes: (c,), nanoseconds.
    """

    place: str
    graph: str
    value: float
    scores: np.ndarray
    runtimes: np.ndarray


def examples(
    experiment: Experiment, section: str, measurements: pl.DataFrame | None
) -> list[Example]:
    """The best, the median and the worst graph of a section, as far as their runtimes are known.

    Args:
        experiment, section: where from.
        measurements: runtimes that lie apart from the scores, ``graph, config, runtime``.
    """
    metrics, main = experiment.metrics_of(section), experiment.kind.main
    order = ranked(metrics, main)
    if not order:
        return []
    chosen = {"best": order[0], "median": order[len(order) // 2], "worst": order[-1]}
    frame = _scores(experiment, section, set(chosen.values()))
    if frame is None:
        return []
    apart, shown = column_by_graph(measurements, "runtime"), dict[str, Example]()
    for place, graph in chosen.items():
        rows = frame.filter(pl.col("graph") == graph).sort("config")
        labelled = not rows["runtime"].null_count()
        runtimes = rows["runtime"] if labelled else apart.get(graph, pl.Series())
        if graph not in shown and 0 < len(runtimes) == len(rows):
            scores, measured = rows["score"].to_numpy(), runtimes.to_numpy().astype(float)
            shown[graph] = Example(place, graph, metrics[graph][main.key], scores, measured)
    return list(shown.values())


def _scores(experiment: Experiment, section: str, graphs: set[str]) -> pl.DataFrame | None:
    """The section's folds blended as stage 4 does: ``graph, config, score, runtime``."""
    folds = experiment.measured if section == "validation" else experiment.blended
    paths = [experiment.folder / "scores" / f"fold_{fold}.parquet" for fold in folds]
    of_graphs = (pl.col("split") == SPLIT_OF[section]) & pl.col("graph").is_in(sorted(graphs))
    columns = (*KEYS, "score", "runtime")
    there = (read_score_rows(path, columns, of_graphs) for path in paths if path.exists())
    frames = [  # A configuration's score is its mean over permutations.
        frame.group_by(*KEYS).agg(pl.col("score").mean(), pl.col("runtime").first()).sort(*KEYS)
        for frame in there
    ]
    if not frames:
        return None
    runtimes = pl.concat(frames, how="diagonal_relaxed").group_by(*KEYS)
    measured = runtimes.agg(pl.col("runtime").drop_nulls().first())
    return blend_frames(frames, experiment.blending).join(measured, on=KEYS)
