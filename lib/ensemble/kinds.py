"""How stage 4 measures and shows each kind of collection, and what it submits of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.cache.graph import CachedGraph
from lib.cache.kernel import CachedKernel
from lib.ranking.baseline import moved_bytes, output_tile
from lib.ranking.metrics import kendall_tau, random_best, ranking_metrics, tile_metrics

# Columns of the table at the end: title, metric, format.
Columns = tuple[tuple[str, str, str], ...]
SLOWDOWNS: Columns = tuple((f"top-{k}", f"top_{k}_slowdown", "{:.1%}") for k in (1, 5, 10))


@dataclass(frozen=True)
class Kind:
    """A kind of collection.

    Attributes:
        metrics: of a graph, from (scores, runtimes, graph), the baselines' among them.
        columns: of the table at the end.
        listed: how many configurations a submission names at most; ``None`` for all.
    """

    metrics: Callable[[np.ndarray, np.ndarray, Any], dict[str, float]]
    columns: Columns
    listed: int | None


def layout_metrics(
    scores: np.ndarray, runtimes: np.ndarray, graph: CachedGraph
) -> dict[str, float]:
    """Every layout metric, and the tau of the ranking that needs no learning."""
    baseline = kendall_tau(moved_bytes(graph)[graph.original], runtimes)
    return {**ranking_metrics(scores, runtimes), "baseline_tau": baseline}


def tile_metrics_beside_baselines(
    scores: np.ndarray, runtimes: np.ndarray, kernel: CachedKernel
) -> dict[str, float]:
    """Every tile metric, and what the largest output tile first and drawing at random get."""
    baseline = tile_metrics(output_tile(kernel), runtimes)
    drawn = {f"random_top_{k}_slowdown": random_best(runtimes, k) - 1 for k in (1, 5, 10)}
    return {
        **tile_metrics(scores, runtimes),
        "random_tile_score": 2 - random_best(runtimes, 5),
        **drawn,
        **{f"baseline_{name}": value for name, value in baseline.items()},
    }


LAYOUT = Kind(
    metrics=layout_metrics,
    columns=(
        ("tau", "tau", "{:.3f}"),
        ("baseline", "baseline_tau", "{:.3f}"),
        ("ceiling", "ceiling", "{:.3f}"),
        ("pairs", "ordered_pair_accuracy", "{:.3f}"),
        *SLOWDOWNS,
    ),
    listed=None,
)
TILE = Kind(
    metrics=tile_metrics_beside_baselines,
    columns=(
        ("M_tile", "tile_score", "{:.3f}"),
        ("random", "random_tile_score", "{:.3f}"),
        ("baseline", "baseline_tile_score", "{:.3f}"),
        *SLOWDOWNS,
    ),
    listed=5,
)
KINDS: dict[str, Kind] = {"layout": LAYOUT, "tile": TILE}
