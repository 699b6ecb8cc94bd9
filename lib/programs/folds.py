"""Which tensor programs a fold learns from, is validated on and tested on.

Two ways. ``networks``: networks are dealt to folds, whole, and a fold is validated on every task
that one of its networks calls; a task that other networks share with them is in nobody's training
but theirs. The test is the source's: whole networks with all their tasks. ``random``: of the
programs that networks of the test do not have, a tenth is the test, a tenth validates a fold, and
eight tenths are learned from (CDMPP, section 7.1). All devices of a program go together, so that
each is split 8:1:1 and none tells of another.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Protocol

import numpy as np

from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.programs.task import networks_of
from lib.ranking.folds import FoldSettings, folds_of

TENTHS = 10
TEST_TENTH = TENTHS - 1
Chosen = dict[str, np.ndarray]  # by task, which of its programs, (p,) bool


class SplitSettings(FoldSettings, Protocol):
    """The settings that it depends on."""

    @property
    def split(self) -> str:
        """``networks`` or ``random``."""


def sides_of_fold(cache: Cache, fold: int, settings: SplitSettings) -> dict[str, Chosen]:
    """The programs that are ``valid``, ``test`` and ``train`` to one fold, by sorted task.

    Raises:
        UserError: if there is no such fold.
    """
    if not 0 <= fold < settings.folds_total:
        raise UserError(f"--fold {fold}: must be from 0 to {settings.folds_total - 1}")
    names = cache.names("train", "valid")
    if settings.split == "random":
        return _by_tenths(cache, names, fold, settings.seed)
    called = {name: networks_of(cache.rows[name]) for name in names}
    held_out = held_out_by(called, fold, settings)
    parts = {
        "valid": [name for name in names if name in held_out],
        "test": cache.names("test"),
        "train": [name for name in names if name not in held_out],
    }
    return {side: {name: _all(cache, name) for name in tasks} for side, tasks in parts.items()}


def held_out_by(called: Mapping[str, Iterable[str]], fold: int, settings: FoldSettings) -> set[str]:
    """The tasks that a network of the fold calls.

    Args:
        called: the networks that call each task; one that none calls is its own.
    """
    callers = {task: tuple(networks) or (task,) for task, networks in called.items()}
    folds = folds_of({network for networks in callers.values() for network in networks}, settings)
    return {task for task, names in callers.items() if any(folds[name] == fold for name in names)}


def _by_tenths(cache: Cache, names: list[str], fold: int, seed: int) -> dict[str, Chosen]:
    sides: dict[str, Chosen] = {"valid": {}, "test": {}, "train": {}}
    for name in names:
        tenth = tenths(name, cache.graph(name).original, seed)
        masks = {"valid": tenth == fold, "test": tenth == TEST_TENTH}
        masks["train"] = ~(masks["valid"] | masks["test"])
        for side, mask in masks.items():
            if mask.any():
                sides[side][name] = mask
    return sides


def tenths(name: str, original: np.ndarray, seed: int) -> np.ndarray:
    """(p,) the tenth of each of a task's programs, 0 to 9; equal programs are in the same one.

    A task's programs are dealt in turn, in an order and from a tenth on that its name decides, so
    that tenths are of one size, also within tasks.
    """
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    distinct = int(original.max(initial=-1)) + 1
    start = int(generator.integers(TENTHS))
    dealt = (generator.permutation(distinct) + start) % TENTHS
    return dealt[original]


def _all(cache: Cache, name: str) -> np.ndarray:
    return np.ones(cache.rows[name]["programs"], bool)
