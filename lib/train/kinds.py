"""What stage 2 trains on, by the input of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lib.cache.reader import Cache
from lib.settings import Settings
from lib.train import boosted, copies, kernel_segments, kernels, pruned, segments
from lib.train.fold import Fold
from lib.train.split import other_caches

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


def data_of(cache: Cache, settings: Settings) -> dict[str, Any]:
    """Fingerprints of the data that a fold learns from, for the record and identity of a run.

    Returns:
        ``data``, the collection's, and ``other_data``, those of others by name, if there are any.

    Raises:
        UserError: if the cache of another collection is not there.
    """
    others = other_caches(cache, settings).items()
    found = {name: other.fingerprint for name, other in others}
    return {"data": cache.fingerprint} | ({"other_data": found} if found else {})
