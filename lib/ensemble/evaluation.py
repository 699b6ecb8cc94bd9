"""How good the scores are, next to the baseline and the ceiling."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import polars as pl

from lib.baseline import moved_bytes
from lib.cache.reader import Cache
from lib.metrics import kendall_tau, mean_metrics, ranking_metrics


def true_runtimes(cache: Cache, measurements: pl.DataFrame | None) -> dict[str, np.ndarray]:
    """Runtimes (ns) of each graph's configurations in the source's order.

    Those of the npz files, and for graphs that have none there (the test split of our own
    measurements) those that lie apart. Graphs that nobody knows the truth of are absent.
    """
    known = {}
    apart = _by_graph(measurements, "runtime")
    for name in cache.names("train", "valid", "test"):
        graph = cache.graph(name)
        if graph.labelled:
            known[name] = np.asarray(graph.runtime)[graph.original]
        elif name in apart and len(apart[name]) == len(graph.original):
            known[name] = apart[name].to_numpy()
    return known


def ceilings(measurements: pl.DataFrame | None) -> dict[str, float]:
    """Kendall's tau between two halves of each graph's rounds.

    No predictor can be expected to agree with noisy labels better than the labels agree with
    themselves. (Each half has half the rounds, so labels from all of them are a little better.)
    Graphs whose configurations have fewer than two rounds, or unequal numbers, have none.
    """
    found = {}
    for name, rounds in _by_graph(measurements, "rounds").items():
        lengths = set(rounds.list.len())
        if len(lengths) == 1 and lengths.pop() >= 2:
            table = np.array(rounds.to_list())  # (configurations, rounds)
            found[name] = kendall_tau(table[:, ::2].min(axis=1), table[:, 1::2].min(axis=1))
    return found


def evaluate(
    scores: pl.DataFrame, cache: Cache, truth: dict[str, np.ndarray], ceiling: dict[str, float]
) -> dict[str, Any]:
    """Metrics of each graph and their means.

    Args:
        scores: ``graph, config, score`` with every configuration of each graph in it.
        cache: for the baseline.
        truth: runtimes by graph; graphs without are left out.
        ceiling: by graph, may be empty.

    Returns:
        ``{"mean": {...}, "graphs": {name: {...}}}``: ``tau``, ``ordered_pair_accuracy``,
        ``top_<k>_slowdown``, ``baseline_tau`` and, where known, ``ceiling``; empty without truth.
    """
    graphs = {}
    for name in sorted(set(scores["graph"]) & set(truth)):
        own = scores.filter(pl.col("graph") == name).sort("config")["score"].to_numpy()
        graph = cache.graph(name)
        row = ranking_metrics(own, truth[name])
        row["baseline_tau"] = kendall_tau(moved_bytes(graph)[graph.original], truth[name])
        if name in ceiling:
            row["ceiling"] = ceiling[name]
        graphs[name] = row
    return {"mean": mean_metrics(list(graphs.values())), "graphs": graphs} if graphs else {}


def summary_table(sections: Iterable[tuple[str, dict[str, Any]]]) -> str:
    """The means of several evaluations as aligned text."""
    columns = (
        ("tau", "tau", "{:.3f}"),
        ("baseline", "baseline_tau", "{:.3f}"),
        ("ceiling", "ceiling", "{:.3f}"),
        ("pairs", "ordered_pair_accuracy", "{:.3f}"),
        ("top-1", "top_1_slowdown", "{:.1%}"),
        ("top-5", "top_5_slowdown", "{:.1%}"),
        ("top-10", "top_10_slowdown", "{:.1%}"),
    )
    lines = [f"{'':<18}{'graphs':>7}" + "".join(f"{title:>10}" for title, _, _ in columns)]
    for title, section in sections:
        if section:
            mean = section["mean"]
            cells = [form.format(mean[key]) if key in mean else "-" for _, key, form in columns]
            numbers = "".join(f"{cell:>10}" for cell in cells)
            lines.append(f"{title:<18}{len(section['graphs']):>7}" + numbers)
    return "\n".join(lines)


def _by_graph(measurements: pl.DataFrame | None, column: str) -> dict[str, pl.Series]:
    if measurements is None:
        return {}
    parts = measurements.sort("graph", "config").partition_by("graph", as_dict=True)
    return {key[0]: frame[column] for key, frame in parts.items()}
