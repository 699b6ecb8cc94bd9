"""Training one fold: resumable at any epoch, and the same weights whether resumed or not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic

import numpy as np
import polars as pl
import torch
from torch import nn

from lib.files.artifacts import fingerprint_value, remove_leftovers
from lib.files.errors import UserError
from lib.models import computed_by
from lib.ranking.metrics import mean_metrics
from lib.runs.memory import out_of_memory_told
from lib.runs.provenance import versions
from lib.settings import Settings
from lib.train.dealing import Dealt, deal
from lib.train.fold import Chosen, Fold, Network
from lib.train.processes import ALONE, Processes
from lib.train.saved import Progress, read_state, save_state
from lib.train.schedule import learning_rate, passes_of, peak_rate

MOMENTUM = 0.9  # of stochastic gradient descent


class FoldTraining(Generic[Network, Chosen]):
    """One fold's network, optimizer and progress.

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
        self.progress, self.best = Progress(), _copy(network)
        self.device = next(network.parameters()).device
        self.resumed_at, self.taken = 0, 0
        self.after_step: Callable[[int], None] = lambda steps: None  # that are done
        self.steps_per_epoch = -(-data.steps() // settings.accumulate)
        self.epochs = passes_of(settings, self.steps_per_epoch)
        self.steps = max(1, round(self.epochs * self.steps_per_epoch))

    def run(self, state: Path, identity: str) -> Iterator[dict[str, float]]:
        """Train to the end, yielding a row of history an epoch, resumed ones first.

        A run whose loss is no longer finite stops: nothing after that can be of use, and the best
        weights so far stand (the paper drops such a fold by its validation score).

        Args:
            state: file that the training state is saved to and resumed from.
            identity: fingerprint of data, settings and code. A state of another is ignored, and
                so is one that something else computed, such as another version of torch, whose
                sums are rounded otherwise.
        """
        parts: list[Any] = [identity, versions(), computed_by(self.network)]
        if self.processes.count > 1:  # whose sums are rounded otherwise, too
            parts.append(self.processes.count)
        identity = fingerprint_value(parts)
        self._resume(state, identity)
        estimate = self.data.estimate(self.network)
        with out_of_memory_told(estimate, self.device, "train" if self.processes.first else ""):
            yield from self._epochs(state, identity)

    def _epochs(self, state: Path, identity: str) -> Iterator[dict[str, float]]:
        saved = time.monotonic()
        yield from self.progress.history
        while self._steps_done(self.progress.epochs) < self.steps:
            row = self._epoch()
            yield row
            if not np.isfinite(row["loss"]):
                return
            if self.processes.broadcast(time.monotonic() - saved >= self.settings.save_seconds):
                self._save(state, identity)
                saved = time.monotonic()
        self._validate_whole()

    def end(self, state: Path) -> None:
        """The results are safe: delete the training state and what was kept beside it."""
        self.data.beside.end()
        state.unlink(missing_ok=True)
        remove_leftovers(state)

    def _epoch(self) -> dict[str, float]:
        started, epoch = time.perf_counter(), self.progress.epochs
        self.network.train()
        results, self.taken = [], 0
        left = range(self._steps_done(epoch), self.steps)
        dealt = deal(self.data, self.fold, epoch, self.processes)
        for step, own in zip(left, dealt, strict=False):
            rate = self._set_learning_rate(step)
            results.append(self.step(own))
            self.after_step(step + 1)
        losses, norms = (torch.stack(each).tolist() for each in zip(*results, strict=True))
        row = {
            "epoch": self._passes(epoch + 1),
            "loss": float(np.mean(losses)),
            "gradient_norm": float(np.mean(norms)),
            "learning_rate": rate,
        }
        taken, trained = self.processes.total(self.taken), time.perf_counter()
        row["configurations_per_second"] = taken / (trained - started)
        row |= self._validate(epoch)
        row["validation_seconds"] = time.perf_counter() - trained
        row["seconds"] = time.perf_counter() - started
        self.progress.epochs += 1
        self.progress.history.append(row)
        return row

    def _set_learning_rate(self, step: int) -> float:
        peak = peak_rate(self.settings.learning_rate, self.settings.accumulate)
        rate = learning_rate(step, self.steps, peak, self.settings.warmup, self.settings.schedule)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        return rate

    def _steps_done(self, epochs: int) -> int:
        return min(epochs * self.steps_per_epoch, self.steps)

    def _passes(self, epochs: int) -> float:
        """Passes over the training graphs at the end of an epoch, whole ones if all are whole."""
        return type(self.epochs)(min(epochs, self.epochs))

    def step(self, dealt: Dealt) -> tuple[torch.Tensor, torch.Tensor]:
        """One optimizer step on the mean loss of its samples, those of other processes included.

        Nothing is read back here, so that a GPU is never waited for.

        Returns:
            (loss, gradient norm), on the network's device.
        """
        loss = torch.zeros((), device=self.device)
        self.optimizer.zero_grad(set_to_none=True)
        for sample in dealt.samples:
            sample = sample.to(self.device)
            own = self.data.loss(self.network, sample) / dealt.count
            own.backward()
            loss = loss + own.detach()
            self.taken += sample.size
        if self.settings.accumulate > 1:
            self._add_up(loss)
        norm = nn.utils.clip_grad_norm_(self.network.parameters(), self.settings.gradient_clip)
        self.optimizer.step()
        return loss, norm

    def _add_up(self, loss: torch.Tensor) -> None:
        """Make loss and gradients those of all processes; none is a gradient of zeros."""
        parameters = [one for one in self.network.parameters() if one.requires_grad]
        for one in parameters:
            if one.grad is None:
                one.grad = torch.zeros_like(one)
        self.processes.add_up([loss, *(one.grad for one in parameters if one.grad is not None)])

    def _validate(self, epoch: int) -> dict[str, float]:
        """Mean metrics over the validation graphs, and the best weights if these are they."""
        last = self._steps_done(epoch + 1) == self.steps
        if not self.processes.first:
            return {}
        if (epoch + 1) % self.settings.validate_every and not last:
            return {}
        self.network.eval()
        graphs = self.data.validate(self.network)
        if not graphs:
            self.progress.last = {}
            return {}
        metric = self.settings.metric
        self.progress.last = _validation(self._passes(epoch + 1), graphs, metric)
        if self._is_better(self.progress.last, self.progress.best):
            self.progress.best = self.progress.last
            self.best = _copy(self.network)
        mean = mean_metrics(list(graphs.values()))
        return {f"validation_{name}": value for name, value in mean.items()}

    def _is_better(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        """Whether a validation is above another; above none, any is."""
        metric = self.settings.metric
        sign = 1 if self.settings.higher_is_better else -1
        return not other or sign * (one[metric] - other[metric]) > 0

    def _validate_whole(self) -> None:
        """Judge the weights that stage 3 uses by every configuration, where epochs were by some.

        Folds are compared by that. The other weights keep the validation of their epoch.
        """
        used = self.settings.weights
        known = self.validations[used]
        if not known or not self.data.samples_validation():
            return
        trained = _copy(self.network)
        self.network.load_state_dict(trained if used == "last" else self.best)
        self.network.eval()
        graphs = self.data.validate(self.network, whole=True)
        self.network.load_state_dict(trained)
        whole = _validation(known["epoch"], graphs, self.settings.metric) if graphs else {}
        self.progress = replace(self.progress, **{used: whole})  # type: ignore[arg-type]

    @property
    def validations(self) -> dict[str, dict[str, Any]]:
        """The ``best`` and the ``last`` one, see :class:`lib.train.saved.Progress`."""
        return {"best": self.progress.best, "last": self.progress.last}

    def validation(self, name: str) -> dict[str, Any]:
        """One of them.

        Raises:
            UserError: if there was none with finite scores.
        """
        if not self.validations[name]:
            raise UserError(f"fold {self.fold} diverged: lower --learning-rate, or --weights best")
        return self.validations[name]

    def history(self) -> pl.DataFrame:
        """A row an epoch; columns in the order of their names, ``epoch`` first."""
        frame = pl.DataFrame(self.progress.history, infer_schema_length=None)
        return frame.select("epoch", *sorted(set(frame.columns) - {"epoch"}))

    def _save(self, path: Path, identity: str) -> None:
        if self.processes.first:
            save_state(path, identity, self.network, self.best, self.optimizer, self.progress)
        self.processes.broadcast(True)  # what is kept beside it belongs to it only now
        self.data.beside.saved(self.progress.epochs)

    def _resume(self, path: Path, identity: str) -> None:
        saved = read_state(path, identity, self.network, self.optimizer)
        epochs = int(self.processes.least(saved.progress.epochs if saved else 0))
        if not self.processes.least(self.data.beside.begin(path, identity, epochs)):
            epochs = 0
            if self.processes.first:
                path.unlink()  # or a kill before the next save would leave it with what is anew
            self.data.beside.begin(path, identity, 0)
        if saved and epochs:
            saved.restore(self.network, self.optimizer)
            self.best, self.progress = dict(saved.best), saved.progress
            self.resumed_at = self.progress.epochs


def new_network(
    build: Callable[[], Network], data: Fold[Network, Any], seed: int, fold: int
) -> Network:
    """A network with weights drawn from (seed, fold), standardized on the training graphs.

    What else it is to begin with: see :meth:`Fold.teach`.
    """
    torch.manual_seed(np.random.SeedSequence([seed, fold]).generate_state(1, np.uint64).item() >> 1)
    network = build()
    data.standardize(network)
    data.teach(network)
    return network


def _optimizer(network: nn.Module, settings: Settings) -> torch.optim.Optimizer:
    """What takes the steps; weight decay on matrices only, not on biases, scales, temperatures.

    AdamW (TGraph paper, 2.4.2), Adam (CDMPP, table 6), or stochastic gradient descent with
    Nesterov's momentum (CDMPP, 5.3, which leaves the momentum open).
    """
    matrices: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, one in network.named_parameters():  # (networks side by side have rows of biases)
        (others if one.ndim <= 1 or name.endswith(("bias", "scale")) else matrices).append(one)
    decay = settings.weight_decay
    groups = [{"params": matrices, "weight_decay": decay}, {"params": others, "weight_decay": 0.0}]
    if settings.optimizer == "sgd":
        return torch.optim.SGD(groups, settings.learning_rate, MOMENTUM, nesterov=True)
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[settings.optimizer]
    return kind(groups, settings.learning_rate, fused=True)


def _validation(
    epoch: float, graphs: Mapping[str, dict[str, float]], metric: str
) -> dict[str, Any]:
    """What is kept of a validation, see :class:`lib.train.saved.Progress`."""
    each = {name: metrics[metric] for name, metrics in graphs.items()}
    mean = mean_metrics(list(graphs.values()))
    return {"epoch": epoch, metric: mean[metric], "graphs": each}


def _copy(network: nn.Module) -> dict[str, torch.Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in network.state_dict().items()}
