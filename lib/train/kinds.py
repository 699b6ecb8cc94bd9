"""What stage 2 trains on for each kind of collection."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from lib.cache.reader import Cache
from lib.train import data, tile


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


# (cache, fold, folds in all, seed) -> the fold
LOADERS: dict[str, Callable[[Cache, int, int, int], Fold]] = {
    "layout": data.load_fold,
    "tile": tile.load_fold,
}


def load_fold(cache: Cache, fold: int, settings: Any) -> Fold:
    """The graphs of one fold of a collection.

    Raises:
        UserError: if there is no such fold, or a side of it is empty.
    """
    return LOADERS[settings.kind](cache, fold, settings.folds_total, settings.seed)
