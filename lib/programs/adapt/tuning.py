"""Fine-tuning a trained network towards other devices or networks (CDMPP, section 5.3).

A step has three batches: programs on the source devices with their latencies; programs of the
chosen tasks on the target device with theirs, if there are any; and programs of the target without
latencies. The loss is that of training on the first two, plus alpha times the Central Moment
Discrepancy between latent representations of the first and of the last (equation 7).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from lib.programs.inputs import Programs, batches_of
from lib.programs.losses import LATENCY_LOSSES
from lib.programs.models.cdmpp import ProgramBatch
from lib.programs.models.discrepancy import central_moment_discrepancy
from lib.programs.settings import ProgramCollection
from lib.training.fold import Fold
from lib.training.loop import FoldTraining

EPOCH = 20  # steps after which a killed run can go on
# Numbers of programs, and what their mean loss counts, so that all programs of a part count alike:
# numbers of leaves that few programs have make small batches.
Drawn = tuple[np.ndarray, float]


@dataclass(frozen=True, eq=False)
class Part:
    """Programs on some devices.

    Attributes:
        programs: n of them, with (n, d) seconds; all NaN where none are known.
        devices: (d, 11) features of the devices.
    """

    programs: Programs
    devices: Tensor

    def with_latencies(self) -> Part:
        """The programs that have a latency on at least one device."""
        measured = np.isfinite(self.programs.seconds).any(1)
        return replace(self, programs=self.programs.some(measured))


@dataclass(frozen=True, eq=False)
class AdaptSample:
    """What a step trains on; as :class:`lib.training.fold.Sample`.

    Attributes:
        inputs: of the network: batches with labels, then a batch without if alpha counts.
        labels: (b, d) of each batch that has them, NaN where nothing was measured.
        weights: what the mean loss of each of those batches counts.
        alpha: what the discrepancy of the first from the last batch counts.
        settings: which loss, and its numbers.
    """

    inputs: list[ProgramBatch]
    labels: list[Tensor]
    weights: list[float]
    alpha: float
    settings: ProgramCollection

    @property
    def size(self) -> int:
        """Number of labels, counting those that were not measured."""
        return sum(labels.numel() for labels in self.labels)

    def to(self, device: torch.device) -> AdaptSample:
        """The same on another device."""
        inputs = [batch.to(device) for batch in self.inputs]
        return replace(self, inputs=inputs, labels=[labels.to(device) for labels in self.labels])

    def loss(self, outputs: Sequence[tuple[Tensor, Tensor]]) -> Tensor:
        """What predicted labels, (b, d), and latents, (b, d, e), of each batch cost."""
        s = self.settings
        total = outputs[0][0].new_zeros(())
        for (predicted, _), labels, weight in zip(outputs, self.labels, self.weights, strict=False):
            cost = LATENCY_LOSSES[s.loss](predicted, labels, s.mape_weight, s.least_label)
            total = total + weight * cost
        if self.alpha:
            first, last = (outputs[k][1].flatten(0, 1) for k in (0, -1))
            total = total + self.alpha * central_moment_discrepancy(first, last)
        return total


@dataclass(eq=False)
class AdaptFold(Fold[Any, ProgramCollection]):
    """What a network is fine-tuned on.

    Attributes:
        source: with latencies.
        chosen: with the latencies of the chosen tasks on the target; ``None`` if none are known.
        target: without latencies, whatever they say.
        alpha: what the discrepancy counts.
        settings: of the network, with epochs of ``EPOCH`` steps and the rate of fine-tuning.
    """

    source: Part
    chosen: Part | None
    target: Part
    alpha: float
    settings: ProgramCollection
    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self.labels: list[Tensor] = []

    @property
    def labelled(self) -> list[Part]:
        """The parts with latencies."""
        return [part for part in (self.source, self.chosen) if part is not None]

    def standardize(self, network: nn.Module) -> None:
        """Nothing is fitted again: labels go through the transform that the network has."""
        with torch.no_grad():
            self.labels = [
                network.labels(torch.from_numpy(part.programs.seconds)).float()
                for part in self.labelled
            ]

    def steps(self) -> int:
        return EPOCH

    def groups(self, generator: np.random.Generator) -> list[tuple[Drawn, ...]]:
        """The training programs of each part, in the order of an epoch."""
        parts = [*self.labelled, *([self.target] if self.alpha else [])]
        batches = (drawn(part.programs.counts, self.settings.batch, generator) for part in parts)
        return list(zip(*batches, strict=True))

    def take(
        self,
        group: tuple[Drawn, ...],
        generator: np.random.Generator,
    ) -> AdaptSample:
        """A batch of each part, with labels where it has some."""
        parts = [*self.labelled, self.target]
        inputs = [
            part.programs.batch(rows, part.devices)
            for part, (rows, _) in zip(parts, group, strict=False)
        ]
        pairs = list(zip(self.labels, group, strict=False))
        labels = [table[torch.from_numpy(rows)] for table, (rows, _) in pairs]
        weights = [weight for _, (_, weight) in pairs]
        return AdaptSample(inputs, labels, weights, self.alpha, self.settings)

    def loss(self, network: nn.Module, sample: AdaptSample) -> Tensor:
        return sample.loss([network.with_latents(batch) for batch in sample.inputs])

    def validate(self, network: nn.Module, whole: bool = False) -> Mapping[str, dict[str, float]]:
        """Nothing is held out of the few labels there are."""
        return {}

    def samples_validation(self) -> bool:
        return False


def fine_tune(
    network: nn.Module,
    data: AdaptFold,
    draw: int,
    state: Path,
    identity: str,
) -> None:
    """Train a network further; killed and called again it ends with the same weights.

    Args:
        network: trained; its weights are changed.
        data: to train on.
        draw: part of every seed.
        state: file of the training state, deleted in the end.
        identity: fingerprint of what the result depends on.
    """
    data.standardize(network)
    training = FoldTraining(network, data, draw)
    network.train()
    for _ in training.run(state, identity):
        pass
    training.state.delete()
    network.eval()


def drawn(counts: np.ndarray, size: int, generator: np.random.Generator) -> list[Drawn]:
    """``EPOCH`` batches of one number of leaves each, in passes over (n,) programs."""
    found: list[Drawn] = []
    while len(found) < EPOCH:
        order = generator.permutation(len(counts))
        batches = list(batches_of(counts[order], size))
        usual = len(counts) / len(batches)
        chosen = (order[batches[number]] for number in generator.permutation(len(batches)))
        found += [(rows, len(rows) / usual) for rows in chosen]
    return found[:EPOCH]
