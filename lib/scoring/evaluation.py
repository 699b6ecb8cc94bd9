"""Metrics of the scores, of the baseline and of the ceiling."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import polars as pl

from lib.cache.reader import Cache
from lib.ranking.blending import places_of
from lib.ranking.measures import Measures, measures_of
from lib.ranking.metrics import Metric, mean_metrics
from lib.ranking.rounds import ceiling as ceiling_of
from lib.ranking.rounds import repeated_ceiling
from lib.ranking.truth import ALIKE, CachedLabels, Truth, column_by_graph
from lib.scoring.ensemble import Blended, Ensemble, Write
from lib.scoring.folds import read_folds
from lib.scoring.submission import submission_lines, write_submission
from lib.settings import Settings


def ceilings(measurements: pl.DataFrame | None) -> dict[str, float]:
    """Return the ceiling of each graph, see :func:`lib.ranking.rounds.ceiling`.

    Graphs whose configurations have fewer than two rounds, or unequal numbers, have none.
    """
    by_graph = {}
    for name, rounds in column_by_graph(measurements, "rounds").items():
        lengths = set(rounds.list.len())
        if len(lengths) == 1 and lengths.pop() >= 2:
            by_graph[name] = ceiling_of(np.array(rounds.to_list()))
    return by_graph


def ordered(scores: pl.DataFrame, cache: Cache) -> pl.DataFrame:
    """Return blended scores with each configuration's ``place`` among those of its graph, from 0
    on, see :func:`lib.ranking.blending.places_of`; sorted by graph and configuration."""
    parts = [scores.clear().with_columns(place=pl.lit(0, pl.Int64))]
    for (name,), part in scores.sort("graph", "config").partition_by("graph", as_dict=True).items():
        places = places_of(part["score"].to_numpy(), cache.graph(name).layouts_set)
        parts.append(part.with_columns(place=places))
    return pl.concat(parts)


def evaluate_all(
    blended: Mapping[str, pl.DataFrame],
    cache: Cache,
    measurements: pl.DataFrame | None,
    settings: Settings,
) -> dict[str, dict[str, Any]]:
    """:func:`evaluate` of each section's blended scores, by section."""
    kind = measures_of(settings.collection, getattr(settings, "hardware", "cpu"))
    truth, ceiling = Truth(CachedLabels(cache), measurements), ceilings(measurements)
    return {name: evaluate(scores, cache, truth, ceiling, kind) for name, scores in blended.items()}


def evaluate(
    scores: pl.DataFrame,
    cache: Cache,
    truth: Truth,
    ceiling: dict[str, float],
    kind: Measures,
) -> dict[str, Any]:
    """Metrics of each graph and their means.

    Args:
        scores: ``graph, config, place`` with every configuration of each graph in it: metrics are
            those of the order that is submitted.
        cache: for the baseline.
        truth: runtimes; graphs that it knows none of are left out.
        ceiling: by graph, may be empty.
        kind: of the collection.

    Returns:
        ``{"mean": {...}, "graphs": {name: {...}}}`` with the kind's metrics and, where known, the
        ``ceiling``; empty without truth. Graphs that cannot be ranked are named in ``left_out``.
    """
    graphs, left_out = {}, []
    for name, places in sorted(column_by_graph(scores, "place").items()):
        runtimes = truth.runtimes(name)
        if runtimes is None:
            continue
        if not truth.can_be_ranked(name, runtimes):
            left_out.append(name)
            continue
        graph = cache.graph(name)
        graphs[name] = kind.measure(places.to_numpy(), runtimes, graph)
        agree = ceiling.get(name, repeated_ceiling(getattr(graph, "repeats", ())))
        if agree is not None:
            graphs[name][kind.ceiling.key] = agree
    result = {"mean": mean_metrics(list(graphs.values())), "graphs": graphs} if graphs else {}
    return {**result, "left_out": left_out} if left_out else result


def summary_table(sections: Mapping[str, Mapping[str, Any]], columns: Sequence[Metric]) -> str:
    """The means of several evaluations as aligned text, and what cannot be ranked, once."""
    lines = [f"{'':<18}{'graphs':>7}" + "".join(f"{metric.heading:>10}" for metric in columns)]
    for title, section in sections.items():
        if "mean" in section:
            mean = section["mean"]
            cells = [metric.plain(mean.get(metric.key)) for metric in columns]
            numbers = "".join(f"{cell:>10}" for cell in cells)
            lines.append(f"{title:<18}{len(section['graphs']):>7}" + numbers)
    if left_out := {name for section in sections.values() for name in section.get("left_out", ())}:
        lines.append(f"left out, {ALIKE}: {', '.join(sorted(left_out))}")
    return "\n".join(lines)


def submission(blended: Blended, cache: Cache, settings: Settings) -> tuple[Write, str]:
    """Return a function that writes the submission of blended scores, and its content in words."""
    counts = {name: cache.counts[name] for name in cache.names("test")}
    listed = measures_of(settings.collection).listed
    lines = submission_lines(blended["test"], settings.identifier, counts, listed)
    return lambda path: write_submission(path, lines), f"{len(lines)} test graphs"


ENSEMBLE = Ensemble(
    read=read_folds,
    order=ordered,
    table=submission,
    evaluate=evaluate_all,
    summary=lambda sections, name: summary_table(sections, measures_of(name).columns),
)
