"""Which graphs a fold trains on and is validated on: the same for every model of layouts."""

from __future__ import annotations

from collections.abc import Iterator

from lib.cache.graph import CachedGraph
from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.inputs.kinds import INPUTS
from lib.ranking.folds import folds_of
from lib.settings import Settings
from lib.train.fold import LabelledGraph


def folds_with(fold: int, cache: Cache, settings: Settings) -> dict[str, int]:
    """The fold of each graph of the merged train and valid splits.

    Raises:
        UserError: if there is no fold of that number.
    """
    if not 0 <= fold < settings.folds_total:
        raise UserError(f"--fold {fold}: must be from 0 to {settings.folds_total - 1}")
    return folds_of(cache.names("train", "valid"), settings)


def sides_of(
    fold: int, cache: Cache, settings: Settings
) -> tuple[list[CachedGraph], list[CachedGraph]]:
    """The labelled graphs to train on and to validate on, each sorted by name.

    Graphs whose configurations all ran equally fast, or with a single one, have nothing to rank
    and are left out.

    Raises:
        UserError: if there is no such fold, or a side of it is empty.
    """
    sides: tuple[list[CachedGraph], list[CachedGraph]] = ([], [])
    for name, own in sorted(folds_with(fold, cache, settings).items()):
        graph = cache.graph(name)
        if graph.labelled and graph.runtime.min() < graph.runtime.max():
            sides[own == fold].append(graph)
    if not all(sides):
        raise UserError(f"{cache.folder}: fold {fold} has no labelled graphs to train or validate")
    return sides


def prepared_sides(fold: int, cache: Cache, settings: Settings) -> Iterator[list[LabelledGraph]]:
    """The graphs of :func:`sides_of`, each as the model's input prepares it."""
    prepare = INPUTS[settings.input].prepare
    for side in sides_of(fold, cache, settings):
        yield [LabelledGraph(one.name, prepare(one, settings), one.runtime) for one in side]
