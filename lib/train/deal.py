"""The deal of a cache's graphs to folds, as stage 2 needs it."""

from __future__ import annotations

from typing import Any

from lib.cache.reader import Cache
from lib.errors import UserError
from lib.folds import folds_of


def folds_with(fold: int, cache: Cache, settings: Any) -> dict[str, int]:
    """The fold of each graph of the merged train and valid splits.

    Raises:
        UserError: if there is no fold of that number.
    """
    if not 0 <= fold < settings.folds_total:
        raise UserError(f"--fold {fold}: must be from 0 to {settings.folds_total - 1}")
    return folds_of(cache.names("train", "valid"), settings)
