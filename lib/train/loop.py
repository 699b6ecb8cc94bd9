"""A step of training, from drawing graphs to the optimizer, and the steps of one fold.

Which configurations of a graph a step has, and their loss, is the fold's (:mod:`lib.train.fold`);
how far a training has come, and what a killed run goes on from, is :mod:`lib.train.state`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Generic

import numpy as np
import torch
from torch import Tensor, nn

from lib.inputs.chunks import device_of
from lib.runs.memory import out_of_memory_told
from lib.settings import Settings
from lib.train.fold import Chosen, Fold, Network
from lib.train.processes import ALONE, Processes
from lib.train.schedule import learning_rate, passes_of, peak_rate
from lib.train.state import TrainingState


class FoldTraining(Generic[Network, Chosen]):
    """The training of one fold's network.

    Everything random is drawn from (seed, fold, epoch), what networks draw of torch's generators
    included, so the state on disk needs no generators, and a run that is killed and resumed ends
    with the same bits. Epochs need not be whole: of 17.5, the last one is half a pass.

    Args:
        network: with fresh weights and fitted standardization.
        data: the fold's graphs, and the model's settings.
        fold: its number, part of every seed.
        processes: that train it together; the first one validates, and writes files.
    """

    def __init__(
        self,
        network: Network,
        data: Fold[Network, Chosen],
        fold: int,
        processes: Processes = ALONE,
    ):
        self.network, self.data, self.fold, self.processes = network, data, fold, processes
        settings = self.settings = data.settings
        data.beside.share(processes)
        self.optimizer = _optimizer(network, settings)
        self.state = TrainingState(network, self.optimizer, data, fold, processes)
        self.device = next(network.parameters()).device
        self.taken = 0  # configurations, in this epoch
        self.after_step: Callable[[int], None] = lambda steps: None  # that are done
        self.steps_per_epoch = -(-data.steps() // settings.accumulate)
        self.epochs = passes_of(settings, self.steps_per_epoch)
        self.steps = max(1, round(self.epochs * self.steps_per_epoch))

    def run(self, file: Path, identity: str) -> Iterator[dict[str, float]]:
        """Train to the end, yielding a row of history an epoch, resumed ones first.

        A run whose loss is no longer finite stops: nothing after that can be of use, and the best
        weights so far stand (the paper drops such a fold by its validation score). What is resumed,
        :meth:`TrainingState.resume` says.
        """
        self.state.resume(file, identity)
        estimate = self.data.estimate(self.network)
        with out_of_memory_told(estimate, self.device, "train" if self.processes.first else ""):
            yield from self.state.history
            while self._steps_done(self.state.epochs) < self.steps:
                row = self._epoch()
                yield row
                if not np.isfinite(row["loss"]):
                    self.state.validations["last"] = {}  # that of an earlier epoch, perhaps
                    return
                self.state.save_if_due()
            self.state.validate_whole()

    def _epoch(self) -> dict[str, float]:
        started, epoch = time.perf_counter(), self.state.epochs
        self.network.train()
        results, self.taken = [], 0
        left = range(self._steps_done(epoch), self.steps)
        self.data.progress = left.start / self.steps
        for step, (samples, count) in zip(left, self._dealt(epoch), strict=False):
            rate = self._set_learning_rate(step)
            results.append(self.step(samples, count))
            self.after_step(step + 1)
        losses, norms = (torch.stack(values).tolist() for values in zip(*results, strict=True))
        row = {
            "epoch": type(self.epochs)(min(epoch + 1, self.epochs)),  # passes; whole if all are
            "loss": float(np.mean(losses)),
            "gradient_norm": float(np.mean(norms)),
            "learning_rate": rate,
        }
        taken, trained = self.processes.total(self.taken), time.perf_counter()
        row["configurations_per_second"] = taken / (trained - started)
        row |= self.state.validate(row["epoch"], self._steps_done(epoch + 1) == self.steps)
        row["validation_seconds"] = time.perf_counter() - trained
        row["seconds"] = time.perf_counter() - started
        self.state.add(row)
        return row

    def _steps_done(self, epochs: int) -> int:
        return min(epochs * self.steps_per_epoch, self.steps)

    def _dealt(self, epoch: int) -> Iterator[tuple[Iterable[Any], int]]:
        """What each step of an epoch trains on: its samples here, and how many all processes have.

        All of it is drawn from (seed, fold, epoch). Where steps take several samples, each is drawn
        from a generator of its own, torch's as well, so that it is the same whichever process it is
        dealt to.
        """
        seeds, together = [self.settings.seed, self.fold, epoch], self.settings.accumulate
        generator = np.random.default_rng(seeds)
        seed_torch(generator)
        groups = self.data.groups(generator)
        if together == 1:
            for group in groups:
                yield [self.data.take(group, generator)], 1
            return
        for start in range(0, len(groups), together):
            step = groups[start : start + together]
            numbered = list(enumerate(step, start + 1))  # to numpy, 0 would be no part of a seed
            yield self._own(seeds, numbered), len(step)

    def _own(self, seeds: list[int], numbered: Sequence[tuple[int, Any]]) -> Iterator[Any]:
        """This process's samples of a step, of which each group has its number in the epoch."""
        for place in self.processes.places(len(numbered)):
            if place >= len(numbered):
                self.data.beside.idle()
                continue
            number, group = numbered[place]
            generator = np.random.default_rng([*seeds, number])
            seed_torch(generator)
            yield self.data.take(group, generator)

    def step(self, samples: Iterable[Any], count: int = 1) -> tuple[Tensor, Tensor]:
        """One optimizer step on the mean loss of its samples, those of other processes included.

        Nothing is read back here, so that a GPU is never waited for.

        Args:
            samples: this process's, each taken when the one before is done with.
            count: how many all processes have.

        Returns:
            (loss, gradient norm), on the network's device.
        """
        loss = torch.zeros((), device=self.device)
        self.optimizer.zero_grad(set_to_none=True)
        for sample in samples:
            sample = sample.to(self.device)
            share = self.data.loss(self.network, sample) / count
            share.backward()
            self.data.done()
            loss = loss + share.detach()
            self.taken += sample.size
        if self.settings.accumulate > 1:
            self._add_up(loss)
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.gradient_clip)
        self.optimizer.step()
        return loss, norm

    def _add_up(self, loss: Tensor) -> None:
        """Make loss and gradients those of all processes; none is a gradient of zeros."""
        parameters = [
            parameter for parameter in self.network.parameters() if parameter.requires_grad
        ]
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        self.processes.add_up(
            [loss, *(parameter.grad for parameter in parameters if parameter.grad is not None)]
        )

    def _set_learning_rate(self, step: int) -> float:
        peak = peak_rate(self.settings.learning_rate, self.settings.accumulate)
        rate = learning_rate(step, self.steps, peak, self.settings.warmup, self.settings.schedule)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return rate


def seed_torch(generator: np.random.Generator) -> None:
    """Let torch's generators, of the CPU and of every GPU, go on from an epoch's own.

    A child of its generator, which draws nothing from it, and which is another child than that of
    the weights: to numpy, the seeds (seed, fold) and (seed, fold, 0) are the same.
    """
    (child,) = generator.spawn(1)
    torch.manual_seed(int(child.integers(1 << 63)))


def new_network(
    build: Callable[[], Network], data: Fold[Network, Any], seed: int, fold: int
) -> Network:
    """A network with weights drawn from (seed, fold), standardized on the training graphs.

    What else it is to begin with: see :meth:`Fold.teach`.
    """
    torch.manual_seed(np.random.SeedSequence([seed, fold]).generate_state(1, np.uint64).item() >> 1)
    network = build()
    device = device_of(network)
    network.cpu()  # where the fold's graphs are
    data.standardize(network)
    data.teach(network)
    return network.to(device)


def _optimizer(network: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """What takes the steps; weight decay on matrices only, not on biases, scales, temperatures.

    AdamW (TGraph paper, 2.4.2), or Adam (CDMPP, table 6).
    """
    matrices: list[nn.Parameter] = []
    free: list[nn.Parameter] = []
    for name, weight in network.named_parameters():  # (networks side by side have rows of biases)
        (free if weight.ndim <= 1 or name.endswith(("bias", "scale")) else matrices).append(weight)
    decay = settings.weight_decay
    groups = [{"params": matrices, "weight_decay": decay}, {"params": free, "weight_decay": 0.0}]
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[settings.optimizer]
    return kind(groups, settings.learning_rate, fused=True)
