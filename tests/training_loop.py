"""The training loop of 02_train.py, for tests and benches: edits of the stage included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from lib.runs.stage import stage_script
from lib.training.checkpoint import Checkpoint
from lib.training.fold import Fold, new_network, optimizer_of
from tests.killing import TIMES


class Training:
    """The training of a fold's network, from new weights or from a checkpoint.

    Args:
        data: the fold's graphs, and the model's settings.
        fold: its number.
        file: of the checkpoint.
        identity: of the training, see :class:`lib.training.checkpoint.Checkpoint`.
    """

    def __init__(self, data: Fold, fold: int, file: Path, identity: str):
        self.network: nn.Module = new_network(data, data.settings.seed, fold)
        self.data, self.fold = data, fold
        self.optimizer = optimizer_of(self.network, data.settings)
        self.checkpoint = Checkpoint(file, self.network, self.optimizer, data, identity)

    def run(self) -> Iterator[dict[str, float]]:
        """Train to the end, yielding a row of numbers an epoch."""
        loop = stage_script("train").train
        yield from loop(self.network, self.optimizer, self.data, self.fold, self.checkpoint)


def timeless(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows of a history without the times, which differ from run to run."""
    return [{k: v for k, v in row.items() if k not in TIMES} for row in history]


def assert_same_bits(one: Training, other: Training) -> None:
    """Both have come to the same weights, last and best ones, to the bit, and the same history."""
    for a, b in (
        (one.network.state_dict(), other.network.state_dict()),
        (one.checkpoint.best_weights, other.checkpoint.best_weights),
    ):
        assert a.keys() == b.keys()
        for name in a:
            assert a[name].dtype == b[name].dtype
            assert torch.equal(a[name], b[name]), name
    assert timeless(one.checkpoint.history) == timeless(other.checkpoint.history)
    assert one.checkpoint.epochs == other.checkpoint.epochs
    assert one.checkpoint.validations == other.checkpoint.validations
