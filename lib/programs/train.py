"""Training on tensor programs: batches of one number of leaves, of all tasks together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn

from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.programs.folds import sides_of_fold
from lib.programs.inputs import (
    Programs,
    batches_of,
    device_features,
    devices_of,
    load_programs,
    predict,
)
from lib.programs.losses import LATENCY_LOSSES
from lib.programs.metrics import MAPE, MEDIAN
from lib.programs.models.cdmpp import ProgramBatch
from lib.programs.settings import ProgramCollection
from lib.training.fold import Fold


@dataclass(frozen=True, eq=False)
class LabelledPrograms:
    """Programs that one step is trained on; as :class:`lib.training.fold.Batch`, of latencies.

    Attributes:
        inputs: of the network, b programs on d devices.
        labels: (b, d).
        settings: which loss, and its numbers.
        mape_weight: what the relative error counts in it.
    """

    inputs: ProgramBatch
    labels: Tensor
    settings: ProgramCollection
    mape_weight: float

    @property
    def size(self) -> int:
        """Number of latencies, counting those that were not measured."""
        return self.labels.numel()

    def to(self, device: torch.device) -> LabelledPrograms:
        """Return the same on another device."""
        return replace(self, inputs=self.inputs.to(device), labels=self.labels.to(device))

    def loss(self, predicted: Tensor) -> Tensor:
        """Return the loss of (b, d) predicted labels."""
        s = self.settings
        return LATENCY_LOSSES[s.loss](predicted, self.labels, self.mape_weight, s.least_label)


@dataclass(eq=False)
class ProgramsFold(Fold):
    """The programs of one fold.

    Attributes:
        programs, held: to train on, and to validate on.
        devices: (d, 11) features of the devices.
        settings: of the model.
        train, valid: names of the tasks.
        labels: (n, d) of ``programs``, once a network's transform was fitted.
    """

    programs: Programs
    held: Programs
    devices: Tensor
    labels: Tensor | None = None
    train: list[str] = field(init=False)
    valid: list[str] = field(init=False)

    def __post_init__(self) -> None:
        self.train, self.valid = list(self.programs.tasks), list(self.held.tasks)

    @classmethod
    def load(cls, cache: Cache, fold: int, settings: ProgramCollection) -> ProgramsFold:
        """Return the programs of a fold, in memory; raises UserError if a side has none."""
        sides = sides_of_fold(cache, fold, settings)
        if not sides["train"] or not sides["valid"]:
            raise UserError(f"{cache.folder}: fold {fold} has no programs to train or validate")
        loaded = (load_programs(cache, sides[side]) for side in ("train", "valid"))
        return cls(settings, *loaded, device_features(devices_of(cache)))

    def standardize(self, network: nn.Module) -> None:
        """Fit the transforms of features and of labels to the training programs."""
        seconds = self.programs.seconds
        arrays = self.programs.features, self.programs.loops, self.programs.counts, seconds
        network.fit(*map(torch.from_numpy, arrays))
        where = next(network.buffers()).device
        self.labels = network.labels(torch.from_numpy(seconds).to(where)).float().cpu()

    def steps(self) -> int:
        return sum(1 for _ in batches_of(self._alike(), self.settings.batch))

    def groups(self, generator: np.random.Generator) -> list[np.ndarray]:
        """Return the batches of an epoch: each of one number of leaves and of devices."""
        order = generator.permutation(len(self.programs))
        batches = list(batches_of(self._alike()[order], self.settings.batch))
        return [order[batches[number]] for number in generator.permutation(len(batches))]

    def _alike(self) -> np.ndarray:
        """Return (n,) numbers, equal for as many leaves and devices with measurements."""
        measured = np.isfinite(self.programs.seconds)
        return self.programs.counts * (1 + measured.shape[1]) + measured.sum(1)

    def draw(
        self, group: np.ndarray, generator: np.random.Generator, done: float
    ) -> LabelledPrograms:
        """Return programs, each on the devices that it was measured on."""
        _, device = np.nonzero(np.isfinite(self.programs.seconds[group]))
        places = torch.from_numpy(device.reshape(len(group), len(device) // len(group)))  # (b, d)
        inputs = self.programs.batch(group, self.devices[places])
        labels = self.labels[torch.from_numpy(group)].gather(1, places)
        first, last = self.settings.rising
        risen = min(1.0, max(0.0, (done - first) / (last - first)))
        return LabelledPrograms(inputs, labels, self.settings, self.settings.mape_weight * risen)

    def validate(self, network: nn.Module, whole: bool = False) -> Mapping[str, dict[str, float]]:
        """Return the errors of each validation task."""
        predicted = predict(network, self.held, self.devices, self.settings.batch)
        return self.errors(predicted) if np.isfinite(predicted).all() else {}

    def validates_a_part(self) -> bool:
        """Return false: programs have no configurations of which some are drawn."""
        return False

    def errors(self, predicted: np.ndarray) -> dict[str, dict[str, float]]:
        """Return errors of each validation task, of (n, d) predicted logarithms of seconds."""
        errors = {}
        for number, name in enumerate(self.valid):
            rows = slice(self.held.first[number], self.held.first[number + 1])
            measured = np.isfinite(self.held.seconds[rows])
            pair = np.exp(predicted[rows][measured]), self.held.seconds[rows][measured]
            errors[name] = {metric.key: metric.compute(*pair) for metric in (MAPE, MEDIAN)}
        return errors
