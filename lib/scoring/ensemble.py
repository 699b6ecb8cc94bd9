"""Stage 4 of a kind of collections: folds to results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from lib.cache.reader import Cache
from lib.files.named import named
from lib.scoring.folds import Folds
from lib.settings import Settings
from lib.systems import SYSTEMS

Blended = Mapping[str, pl.DataFrame]  # by section of metrics.json
Write = Callable[[Path], None]


@dataclass(frozen=True)
class Ensemble:
    """The parts of stage 4, which makes results of the folds' scores.

    Attributes:
        read: (folder, cache, settings, number of folds or None) -> of each fold its score in
            validation, and ``split, graph, config, score``, by number.
        order: (blended scores, cache) -> the same with a column ``place``, where they are an order.
        table: (blended scores, cache, settings) -> what writes the table of results, and what
            that table has, in words.
        evaluate: (blended scores, cache, measurements of the data root, settings) -> sections.
        summary: (sections, collection) -> text.
    """

    read: Callable[[Path, Cache, Any, int | None], Folds]
    order: Callable[[pl.DataFrame, Cache], pl.DataFrame]
    table: Callable[[Blended, Cache, Settings], tuple[Write, str]]
    evaluate: Callable[[Blended, Cache, pl.DataFrame | None, Settings], dict[str, dict[str, Any]]]
    summary: Callable[[dict[str, dict[str, Any]], str], str]


def ensemble_of(settings: Settings) -> Ensemble:
    """Return the parts of stage 4 for the collection of some settings."""
    return named(SYSTEMS[settings.kind].ensemble)
