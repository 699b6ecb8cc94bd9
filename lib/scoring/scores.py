"""Scores of one fold as tables, a row a configuration and permutation."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import polars as pl
from torch import nn

from lib.cache.reader import Cache
from lib.models.common.input import input_of
from lib.ranking.folds import splits_of_fold
from lib.scoring.infer import Infer, PermutedScores
from lib.settings import Settings

SCHEMA = {
    "split": pl.String,
    "graph": pl.String,
    "config": pl.Int32,
    "permutation": pl.Int16,
    "score": pl.Float64,
    "runtime": pl.Int64,
}


def graphs_to_score(cache: Cache, fold: int, settings: Settings) -> list[tuple[str, str]]:
    """Return ``(split, graph)`` of everything that one fold scores.

    Splits are the fold's: ``valid`` is what it was validated on, ``train`` (only if
    ``settings.score_training``) what it learned from, ``test`` the source's test split.
    """
    splits = splits_of_fold(cache.learning, cache.names("test"), fold, settings)
    if not settings.score_training:
        del splits["train"]
    return [(split, name) for split, names in splits.items() for name in names]


def score_graphs(
    network: nn.Module,
    cache: Cache,
    graphs: Iterable[tuple[str, str]],
    settings: Settings,
    permuted_scores: PermutedScores,
) -> Iterator[pl.DataFrame]:
    """Score each graph; yield a frame of ``SCHEMA``, a row a configuration and permutation."""
    network.eval()
    for split, name in graphs:
        graph = cache.graph(name)
        scores = permuted_scores(network, graph, settings)
        rounds, count = len(scores), len(graph.original)
        runtime = np.tile(graph.runtime[graph.original], rounds) if graph.labelled else None
        columns = {
            "split": pl.repeat(split, rounds * count, eager=True),
            "graph": pl.repeat(graph.name, rounds * count, eager=True),
            "config": np.tile(np.arange(count), rounds),
            "permutation": np.repeat(np.arange(rounds), count),
            "score": scores[:, graph.original].reshape(-1),
            "runtime": runtime if runtime is not None else [None] * (rounds * count),
        }
        yield pl.DataFrame(columns, schema=SCHEMA)


def is_independent(network: nn.Module, settings: Settings) -> bool:
    """Return whether scores do not depend on which configurations share a batch."""
    if input_of(settings).groupings is None:
        return True
    return not getattr(network, "compares_configurations", True)


INFER = Infer(
    to_score=graphs_to_score,
    frames=score_graphs,
    counts={
        "graphs": pl.col("graph").n_unique(),
        "configurations": pl.struct("graph", "config").n_unique(),
        "permutations": pl.col("permutation").n_unique(),
        "scores": pl.len(),
    },
)
