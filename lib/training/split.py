"""The graphs that a fold is trained and validated on: the same for every model of layouts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from lib.cache.graph import CachedGraph
from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.models.common.input import input_of
from lib.ranking.folds import UNIT_OF, folds_of
from lib.runs.identity import outputs_of
from lib.settings import Settings

NO_FOLD = -1  # of a graph that every fold learns from


@dataclass(frozen=True, eq=False)
class LabelledGraph:
    """A graph or kernel that can be trained on.

    Attributes:
        name: the graph's.
        prepared: the graph as its input prepares it (:mod:`lib.models.common.input`).
        runtime: (c,) of its configurations, in units that are the same within the graph.
    """

    name: str
    prepared: Any
    runtime: np.ndarray


def folds_with(cache: Cache, fold: int, settings: Settings) -> dict[str, int]:
    """Return the fold of each graph of the merged train and valid splits that can be ranked.

    Raises:
        UserError: if there is no fold of that number, or there are too few graphs; it says which
            were left out.
    """
    if not 0 <= fold < settings.folds_total:
        raise UserError(f"--fold {fold}: must be from 0 to {settings.folds_total - 1}")
    try:
        return folds_of(cache.learning, settings)
    except UserError as error:
        reason = left_out(cache)
        raise UserError(f"{cache.folder}: {error}{f'; {reason}' if reason else ''}") from None


def left_out(cache: Cache) -> str:
    """Return in words which graphs no fold has, and why; empty if there are none."""
    whys = [f"{name} ({why})" for name, why in sorted(cache.left_out.items())]
    return f"left out of all folds: {', '.join(whys)}" if whys else ""


def sides_of(
    cache: Cache, fold: int, settings: Settings
) -> tuple[list[CachedGraph], list[CachedGraph]]:
    """Return the graphs to train on and to validate on, each sorted by name; raises UserError as
    :func:`folds_with`."""
    sides: tuple[list[CachedGraph], list[CachedGraph]] = ([], [])
    for name, graph_fold in sorted(folds_with(cache, fold, settings).items()):
        sides[graph_fold == fold].append(cache.graph(name))
    return sides


def prepared_sides(
    cache: Cache, fold: int, settings: Settings
) -> tuple[list[LabelledGraph], list[LabelledGraph]]:
    """Return the graphs of :func:`sides_of`, each as the model's input prepares it.

    Those of other collections that are learned from as well come last of those to train on.

    Raises:
        UserError: as :func:`folds_with` and :func:`of_other_collections`.
    """
    prepare = input_of(settings).prepare

    def prepared(side: Iterable[CachedGraph]) -> list[LabelledGraph]:
        return [
            LabelledGraph(graph.name, prepare(graph, settings), graph.runtime) for graph in side
        ]

    train, valid = sides_of(cache, fold, settings)
    return prepared(chain(train, of_other_collections(cache, fold, settings))), prepared(valid)


def other_caches(cache: Cache, settings: Settings) -> dict[str, Cache]:
    """Return the caches of the other collections to learn from, by name; raises UserError if one is
    not there."""
    outputs = outputs_of(cache.folder, settings)
    return {name: Cache(outputs / path) for name, path in settings.others.items()}


def of_other_collections(cache: Cache, fold: int, settings: Settings) -> Iterator[CachedGraph]:
    """Yield the graphs of other collections that a fold is trained on as well.

    Of each collection they are those that its fold of this number is trained on, so that nobody's
    validation graphs are learned from by that number; but for what the collection itself holds
    out there, graphs or whole families of them, and but for its test graphs. Test graphs of the
    other collections are not learned from either. A collection that has fewer graphs or families
    than there are folds has no folds of its own, and is learned from whole.

    Raises:
        UserError: if another collection's cache is not there.
    """
    part = UNIT_OF[settings.keep_together]
    held = {part(n) for n, number in folds_with(cache, fold, settings).items() if number == fold}
    tested = set(cache.names("test"))
    for other_cache in other_caches(cache, settings).values():
        names = other_cache.learning
        try:
            dealt = folds_of(names, settings)
        except UserError:
            dealt = dict.fromkeys(names, NO_FOLD)
        for graph, number in sorted(dealt.items()):
            if number != fold and part(graph) not in held and graph not in tested:
                yield other_cache.graph(graph)
