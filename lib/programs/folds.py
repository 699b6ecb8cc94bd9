"""Tensor programs that a fold learns from, is validated on and tested on.

Two ways. ``networks``: networks are dealt to folds, whole, and a fold is validated on every task
that one of its networks calls; a task that other networks share with them is in nobody's training
but theirs. The test is the source's: whole networks with all their tasks. ``random``: of the
programs that networks of the test do not have, a tenth is the test, a tenth validates a fold, and
eight tenths are learned from (CDMPP, section 7.1). All devices of a program go together, so that
each is split 8:1:1 and none gives another away.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping

import numpy as np

from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.programs.settings import RANDOM_PARTS, ProgramCollection
from lib.programs.task import networks_of
from lib.ranking.folds import FoldSettings, folds_of

TEST_TENTH = RANDOM_PARTS - 1
Pairs = dict[str, np.ndarray]  # by task, which of its pairs, (pairs,) bool


def sides_of_fold(cache: Cache, fold: int, settings: ProgramCollection) -> dict[str, Pairs]:
    """Return the pairs that are ``valid``, ``test`` and ``train`` to one fold, by sorted task.

    Raises:
        UserError: if there is no such fold.
    """
    if not 0 <= fold < settings.folds_total:
        raise UserError(f"--fold {fold}: must be from 0 to {settings.folds_total - 1}")
    names = cache.names("train", "valid")
    if settings.split == "random":
        sides: dict[str, Pairs] = {"valid": {}, "test": {}, "train": {}}
        for name in names:
            task = cache.graph(name)
            tenth = tenths(name, task.original, settings.seed)[task.owner]
            masks = {"valid": tenth == fold, "test": tenth == TEST_TENTH}
            masks["train"] = ~(masks["valid"] | masks["test"])
            for side, mask in masks.items():
                if mask.any():
                    sides[side][name] = mask
        return sides
    called = {name: networks_of(cache.rows[name]) for name in names}
    held_out = held_out_by(called, fold, settings)
    parts = {
        "valid": [name for name in names if name in held_out],
        "test": cache.names("test"),
        "train": [name for name in names if name not in held_out],
    }
    return {side: all_pairs(cache, tasks) for side, tasks in parts.items()}


def held_out_by(called: Mapping[str, Iterable[str]], fold: int, settings: FoldSettings) -> set[str]:
    """Return the tasks that a network of the fold calls.

    Args:
        called: the networks that call each task; one that none calls is its own.

    Raises:
        UserError: there is only one network.
    """
    callers = {task: tuple(networks) or (task,) for task, networks in called.items()}
    networks = {network for names in callers.values() for network in names}
    if len(networks) == 1:
        raise UserError(
            f"--split networks: {min(networks)} is the only one to learn from, and folds are of "
            "whole networks; --split random (in ARGS of make) deals its programs"
        )
    folds = folds_of(networks, settings)
    return {task for task, names in callers.items() if any(folds[name] == fold for name in names)}


def tenths(name: str, original: np.ndarray, seed: int) -> np.ndarray:
    """Return (p,) tenths of a task's programs, 0 to 9; equal programs are in the same one.

    A task's programs are dealt in turn, in an order and from a tenth on that its name decides, so
    that tenths are of one size, also within tasks.
    """
    generator = np.random.default_rng([seed, zlib.crc32(name.encode())])
    distinct = int(original.max(initial=-1)) + 1
    start = int(generator.integers(RANDOM_PARTS))
    dealt = (generator.permutation(distinct) + start) % RANDOM_PARTS
    return dealt[original]


def all_pairs(cache: Cache, names: Iterable[str]) -> Pairs:
    """Return all pairs of some tasks."""
    return {name: np.ones(cache.rows[name]["configurations"], bool) for name in names}
