"""Scores of one fold, with test-time permutations (TGraph paper, section 2.5.3)."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import polars as pl
from torch import nn

from lib.cache.graph import CachedGraph
from lib.cache.reader import Cache
from lib.infer.tile import tile_scores
from lib.inputs.copies import CopiesGraph, copies_scores
from lib.inputs.pruned import score_groupings
from lib.inputs.segments import segmented, whole_scores
from lib.inputs.tensors import graph_tensors
from lib.ranking.folds import splits_of_fold

SCHEMA = {
    "split": pl.String,
    "graph": pl.String,
    "config": pl.Int32,
    "permutation": pl.Int16,
    "score": pl.Float64,
    "runtime": pl.Int64,
}


def graphs_to_score(cache: Cache, fold: int, settings: Any) -> list[tuple[str, str]]:
    """``(split, graph)`` of everything that one fold scores.

    Splits are the fold's: ``valid`` is what it was validated on, ``train`` (only if
    ``settings.score_training``) what it learned from, ``test`` the source's test split.
    """
    names = cache.names("train", "valid"), cache.names("test")
    splits = splits_of_fold(*names, fold, settings)
    if not settings.score_training:
        del splits["train"]
    return [(split, name) for split, own in splits.items() for name in own]


def score_graphs(
    network: nn.Module, cache: Cache, wanted: Iterable[tuple[str, str]], settings: Any
) -> Iterator[pl.DataFrame]:
    """Score each graph; yields a frame of ``SCHEMA``, a row a configuration and permutation."""
    scores_of = SCORERS[settings.sees]
    network.eval()
    for split, name in wanted:
        graph = cache.graph(name)
        yield _frame(split, graph, scores_of(network, graph, settings))


def permuted_scores(network: nn.Module, graph: CachedGraph, settings: Any) -> np.ndarray:
    """Scores of a graph's distinct configurations under each permutation, (permutations, c).

    A permutation changes which configurations share a batch, and nothing else: the network does
    not see their order. Where one batch holds them all, further permutations would repeat the
    first one's scores, so only one is computed.
    """
    count, size = len(graph.cells), settings.inference_configurations
    rounds = settings.permutations if count > size else 1
    seed = [settings.seed, zlib.crc32(graph.name.encode())]
    orders = [np.random.default_rng([*seed, index]).permutation(count) for index in range(rounds)]
    return score_groupings(network, graph_tensors(graph), np.stack(orders), size)


def unpermuted_scores(network: nn.Module, graph: CachedGraph, settings: Any) -> np.ndarray:
    """Scores of a whole graph's configurations, (1, c); they do not depend on the batch."""
    return whole_scores(network, segmented(graph, settings), settings.inference_configurations)[
        None
    ]


def cost_scores(network: nn.Module, graph: CachedGraph, settings: Any) -> np.ndarray:
    """Scores by learned costs of layout copies, (1, c); they do not depend on the batch."""
    resolved = CopiesGraph(graph, settings.propagation)
    return copies_scores(network, resolved, settings.inference_configurations)[None]


# What a model sees: how it scores a graph, (network, graph, settings) -> (permutations, c).
SCORERS: dict[str, Callable[[nn.Module, Any, Any], np.ndarray]] = {
    "pruned": permuted_scores,
    "copies": cost_scores,
    "whole": unpermuted_scores,
    "kernels": tile_scores,
}


def _frame(split: str, graph: CachedGraph, scores: np.ndarray) -> pl.DataFrame:
    rounds, count = len(scores), len(graph.original)
    runtime = np.tile(graph.runtime[graph.original], rounds) if graph.labelled else None
    return pl.DataFrame(
        {
            "split": pl.repeat(split, rounds * count, eager=True),
            "graph": pl.repeat(graph.name, rounds * count, eager=True),
            "config": np.tile(np.arange(count), rounds),
            "permutation": np.repeat(np.arange(rounds), count),
            "score": scores[:, graph.original].reshape(-1),
            "runtime": runtime if runtime is not None else [None] * (rounds * count),
        },
        schema=SCHEMA,
    )
