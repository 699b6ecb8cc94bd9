"""What stage 2 trains on, by the input of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lib.cache.reader import Cache
from lib.settings import Settings
from lib.train import boosted, copies, kernel_segments, kernels, pruned, segments
from lib.train.fold import Fold

LOADERS: dict[str, Callable[[Cache, int, Any], Fold]] = {
    "pruned": pruned.load_fold,
    "copies": copies.load_fold,
    "segments": segments.load_fold,
    "kernel-segments": kernel_segments.load_fold,
    "kernels": kernels.load_fold,
    "programs": boosted.load_fold,
}


def load_fold(cache: Cache, fold: int, settings: Settings) -> Fold:
    """The graphs of one fold of a collection.

    Raises:
        UserError: if there is no such fold, or a side of it is empty.
    """
    return LOADERS[settings.input](cache, fold, settings)
