"""What stage 3 scores of a kind of collections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import polars as pl
from torch import nn

from lib.cache.reader import Cache
from lib.files.named import named
from lib.runs.memory import Estimate
from lib.settings import Settings
from lib.systems import SYSTEMS


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


def scoring_of(settings: Settings) -> Scoring:
    """How the collection that settings are of is scored."""
    return named(SYSTEMS[settings.kind].infer)
