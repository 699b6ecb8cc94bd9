"""What stage 2 trains on, by the input of a model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from lib.cache.reader import Cache
from lib.files.artifacts import fingerprint_files
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
# Inputs whose new networks are taught something first: the file that they are taught, if any.
TAUGHT: dict[str, Callable[[Any], Path | None]] = {"copies": copies.measured_file}


def load_fold(cache: Cache, fold: int, settings: Settings) -> Fold:
    """The graphs of one fold of a collection.

    Raises:
        UserError: if there is no such fold, or a side of it is empty.
    """
    return LOADERS[settings.input](cache, fold, settings)


def data_of(cache: Cache, settings: Settings) -> dict[str, Any]:
    """Fingerprints of the data that a fold learns from, for the record and identity of a run.

    Returns:
        ``data``, the collection's; ``other_data``, those of others by name, and ``measured``, that
        of what a new network is taught, if there are any.

    Raises:
        UserError: if the cache of another collection is not there.
    """
    others = other_caches(cache, settings).items()
    found = {name: other.fingerprint for name, other in others}
    about: dict[str, Any] = {"data": cache.fingerprint} | ({"other_data": found} if found else {})
    if settings.input in TAUGHT and (file := TAUGHT[settings.input](settings)) is not None:
        about["measured"] = fingerprint_files([file], file.parent)
    return about
