"""What stage 2 trains on, by what a model sees."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from lib.cache.reader import Cache
from lib.runs.memory import Estimate
from lib.train import copies as layouts
from lib.train import kernels as tile
from lib.train import pruned as data
from lib.train import segments as whole


class Sample(Protocol):
    """What one step trains on."""

    inputs: Any  # of the network
    size: int  # configurations

    def to(self, device: torch.device) -> Sample:
        """The same sample on another device."""

    def loss(self, scores: Tensor) -> Tensor:
        """What the network's scores of ``inputs`` cost."""


class Fold(Protocol):
    """Training and validation graphs of one fold."""

    train: Sized
    valid: Sized

    def standardize(self, network: nn.Module) -> None:
        """Fit the network's standardization on the training graphs."""

    def steps(self, settings: Any) -> int:
        """How many samples one pass has."""

    def samples(self, settings: Any, generator: np.random.Generator) -> Iterator[Sample]:
        """One pass over the training graphs; all that is random comes from ``generator``."""

    def validate(self, network: nn.Module, settings: Any) -> dict[str, dict[str, float]]:
        """Metrics of each validation graph, ``settings.metric`` among them; empty if a score is
        not finite."""

    def begin(self, state: Path, identity: str, epochs: int) -> bool:
        """Before the first step: get ready what training keeps beside the network.

        Args:
            state: the training state's file, whose name tells that of others beside it.
            identity: of the run, see :meth:`lib.train.loop.FoldTraining.run`.
            epochs: that the state has seen, which is resumed; 0 to begin anew.

        Returns:
            False if what was kept does not go with such a state: it cannot be resumed.
        """

    def saved(self, epochs: int) -> None:
        """The training state was just saved, after so many epochs."""

    def end(self) -> None:
        """Training is over: delete what was kept."""

    def estimate(self) -> Estimate | None:
        """Memory that a step takes, as far as it is known beforehand."""


# What a model sees: (cache, fold, settings) -> the fold.
LOADERS: dict[str, Callable[[Cache, int, Any], Fold]] = {
    "pruned": data.load_fold,
    "copies": layouts.load_fold,
    "whole": whole.load_fold,
    "kernels": tile.load_fold,
}


def load_fold(cache: Cache, fold: int, settings: Any) -> Fold:
    """The graphs of one fold of a collection.

    Raises:
        UserError: if there is no such fold, or a side of it is empty.
    """
    return LOADERS[settings.sees](cache, fold, settings)
