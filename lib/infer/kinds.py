"""What stage 3 scores, by kind of collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
from torch import nn

from lib.cache.reader import Cache
from lib.infer.programs import predict_programs, programs_to_predict
from lib.infer.scores import graphs_to_score, score_graphs, scoring_memory
from lib.runs.memory import Estimate


@dataclass(frozen=True)
class Scoring:
    """How the collections of a kind are scored.

    Attributes:
        wanted: (cache, fold, settings) -> what one fold scores.
        frames: (network, cache, that, settings) -> a frame of scores for each of it.
        memory: (network, cache, that, settings) -> what it takes, if it is worth telling.
        counts: what the table at the end counts of each split, by heading; the last are scores.
    """

    wanted: Callable[[Cache, int, Any], list[Any]]
    frames: Callable[[nn.Module, Cache, Any, Any], Iterator[pl.DataFrame]]
    memory: Callable[[nn.Module, Cache, Any, Any], Estimate | None]
    counts: dict[str, pl.Expr]


GRAPHS = Scoring(
    wanted=graphs_to_score,
    frames=score_graphs,
    memory=scoring_memory,
    counts={
        "graphs": pl.col("graph").n_unique(),
        "configurations": pl.struct("graph", "config").n_unique(),
        "permutations": pl.col("permutation").n_unique(),
        "scores": pl.len(),
    },
)
PROGRAMS = Scoring(
    wanted=programs_to_predict,
    frames=predict_programs,
    memory=lambda network, cache, wanted, settings: None,
    counts={
        "tasks": pl.col("task").n_unique(),
        "programs": pl.col("program").n_unique(),
        "devices": pl.col("device").n_unique(),
        "scores": pl.len(),
    },
)
SCORING: dict[str, Scoring] = {"layout": GRAPHS, "tile": GRAPHS, "programs": PROGRAMS}
