"""What stage 2 trains on, by the input of a model."""

from __future__ import annotations

from lib.cache.reader import Cache
from lib.files.named import named
from lib.settings import Settings
from lib.train.fold import Fold

# (cache, fold, settings) -> what it learns from, and is validated on
LOADERS: dict[str, str] = {
    "pruned": "lib.train.pruned:load_fold",
    "copies": "lib.train.copies:load_fold",
    "segments": "lib.train.segments:load_fold",
    "kernel-segments": "lib.train.kernel_segments:load_fold",
    "kernels": "lib.train.kernels:load_fold",
    "programs": "lib.programs.train:load_fold",
}


def load_fold(cache: Cache, fold: int, settings: Settings) -> Fold:
    """The graphs of one fold of a collection.

    Raises:
        UserError: if there is no such fold, or a side of it is empty.
    """
    return named(LOADERS[settings.input])(cache, fold, settings)
