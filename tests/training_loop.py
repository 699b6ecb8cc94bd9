"""The training loop of 02_train.py, for tests and benches: edits of the stage included."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from torch import nn

from lib.runs.stage import stage_script
from lib.training.checkpoint import Checkpoint
from lib.training.fold import Fold, new_network, optimizer_of


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
