"""How good the scores are, next to the baseline and the ceiling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from lib.cache.reader import Cache
from lib.ensemble.kinds import LAYOUT, Columns, Kind
from lib.ranking.metrics import mean_metrics
from lib.ranking.rounds import ceiling as ceiling_of
from lib.ranking.truth import Truth, by_graph


def ceilings(measurements: pl.DataFrame | None) -> dict[str, float]:
    """How far each graph's labels agree with themselves, see :func:`lib.ranking.rounds.ceiling`.

    Graphs whose configurations have fewer than two rounds, or unequal numbers, have none.
    """
    found = {}
    for name, rounds in by_graph(measurements, "rounds").items():
        lengths = set(rounds.list.len())
        if len(lengths) == 1 and lengths.pop() >= 2:
            found[name] = ceiling_of(np.array(rounds.to_list()))
    return found


def evaluate(
    scores: pl.DataFrame,
    cache: Cache,
    truth: Truth,
    ceiling: dict[str, float],
    kind: Kind = LAYOUT,
) -> dict[str, Any]:
    """Metrics of each graph and their means.

    Args:
        scores: ``graph, config, score`` with every configuration of each graph in it.
        cache: for the baseline.
        truth: runtimes; graphs that it knows none of are left out.
        ceiling: by graph, may be empty.
        kind: of the collection.

    Returns:
        ``{"mean": {...}, "graphs": {name: {...}}}`` with the kind's metrics and, where known, the
        ``ceiling``; empty without truth.
    """
    graphs = {}
    for name, own in sorted(by_graph(scores, "score").items()):
        runtimes = truth.runtimes(name)
        if runtimes is None:
            continue
        row = kind.metrics(own.to_numpy(), runtimes, cache.graph(name))
        if name in ceiling:
            row["ceiling"] = ceiling[name]
        graphs[name] = row
    return {"mean": mean_metrics(list(graphs.values())), "graphs": graphs} if graphs else {}


def summary_table(
    sections: Iterable[tuple[str, dict[str, Any]]], columns: Columns = LAYOUT.columns
) -> str:
    """The means of several evaluations as aligned text."""
    lines = [f"{'':<18}{'graphs':>7}" + "".join(f"{title:>10}" for title, _, _ in columns)]
    for title, section in sections:
        if section:
            mean = section["mean"]
            cells = [form.format(mean[key]) if key in mean else "-" for _, key, form in columns]
            numbers = "".join(f"{cell:>10}" for cell in cells)
            lines.append(f"{title:<18}{len(section['graphs']):>7}" + numbers)
    return "\n".join(lines)
