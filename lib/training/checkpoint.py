"""Checkpoints: network, optimizer and progress in one file, from which a killed run goes on.

The file is none of the fold's results: when training has ended, 02_train.py writes these and
deletes it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl
import torch
from torch import Tensor, nn

from lib.files import tensor_file
from lib.files.artifacts import fingerprint_value, remove_leftovers
from lib.files.errors import DataError, UserError
from lib.files.schema import expect
from lib.models.common.build import computed_by
from lib.ranking.metrics import mean_metrics
from lib.runs.provenance import versions
from lib.training.fold import Fold

LAST, BEST, OPTIMIZER, FOLD = "last.", "best.", "optimizer.", "fold."  # names of tensors begin so
PROGRESS = {"epochs": int, "validations": {"best": dict, "last": dict}, "history": [dict]}
SAVING_SHARE = 0.05  # of the time, at most, goes into saving
Tensors = Mapping[str, Tensor]


class Checkpoint:
    """A network in training, its optimizer, and how far they have come.

    Args:
        file: to save to and resume from; it need not exist.
        network, optimizer: to train, and what does.
        data: the fold's graphs, and the model's settings.
        identity: fingerprint of the data, settings and code of the training. A file of another
            one is ignored, and so is one that something else has computed, such as another version
            of torch, whose sums are rounded otherwise.

    Attributes:
        epochs: number of those that are done.
        history: a row of numbers for each.
        validations: ``best`` and ``last``, each ``{"epoch", metric, "graphs"}``, such as ``tau``:
            its mean over the fold's validation graphs, and each graph's; empty if there was none
            with finite scores.
        best_weights: those of the best validation.
        resumed_at: epochs that earlier runs have done.
    """

    def __init__(
        self,
        file: Path,
        network: nn.Module,
        optimizer: torch.optim.Optimizer,
        data: Fold,
        identity: str,
    ):
        self.file, self.network, self.data, self.settings = file, network, data, data.settings
        self.optimizer = optimizer
        self.epochs, self.resumed_at = 0, 0
        self.history: list[dict[str, float]] = []
        self.validations: dict[str, dict[str, Any]] = {"best": {}, "last": {}}
        self.best_weights: Tensors = weights_of(network)
        self.identity = fingerprint_value([identity, versions(), computed_by(network)])
        self._resume()
        self.saved_at, self.saving = time.monotonic(), 0.0

    def add(self, row: dict[str, float]) -> None:
        """Count an epoch; ``row`` is what its history has."""
        self.epochs += 1
        self.history.append(row)

    def history_frame(self) -> pl.DataFrame:
        """Return a row an epoch; columns in the order of their names, ``epoch`` first."""
        frame = pl.DataFrame(self.history, infer_schema_length=None)
        return frame.select("epoch", *sorted(set(frame.columns) - {"epoch"}))

    def keep_if_best(
        self, epoch: float, graphs: Mapping[str, dict[str, float]]
    ) -> dict[str, float]:
        """Keep a validation, and the weights if it is the best so far.

        Args:
            epoch: passes over the training graphs.
            graphs: metrics of each validation graph; none if a score was not finite.

        Returns:
            The mean metrics, for the history.
        """
        last = self.validations["last"] = self._validation(epoch, graphs)
        if not last:
            return {}
        best, metric = self.validations["best"], self.settings.metric
        sign = 1 if self.settings.higher_is_better else -1
        if not best or sign * (last[metric] - best[metric]) > 0:
            self.validations["best"], self.best_weights = last, weights_of(self.network)
        mean = mean_metrics(list(graphs.values()))
        return {f"validation_{name}": value for name, value in mean.items()}

    def validate_whole(self) -> None:
        """Validate the weights that stage 3 uses on all configurations, if epochs were on some.

        Folds are compared by that. The other weights keep the validation of their epoch.
        """
        used = self.settings.weights
        if not self.validations[used] or not self.data.validates_a_part():
            return
        trained = weights_of(self.network)
        self.network.load_state_dict(trained if used == "last" else self.best_weights)
        graphs = self.data.validate(self.network.eval(), whole=True)
        self.network.load_state_dict(trained)
        self.validations[used] = self._validation(self.validations[used]["epoch"], graphs)

    def validation(self, fold: int) -> dict[str, Any]:
        """Return the validation of the weights that stage 3 uses.

        Raises:
            UserError: if there was none with finite scores.
        """
        if not self.validations[self.settings.weights]:
            raise UserError(f"fold {fold} diverged: lower --learning-rate, or --weights best")
        return self.validations[self.settings.weights]

    def _validation(self, epoch: float, graphs: Mapping[str, dict[str, float]]) -> dict[str, Any]:
        if not graphs:
            return {}
        metric = self.settings.metric
        values = {name: metrics[metric] for name, metrics in graphs.items()}
        mean = mean_metrics(list(graphs.values()))
        return {"epoch": epoch, metric: mean[metric], "graphs": values}

    def save_if_due(self) -> None:
        """Write the file, if that is ``save_seconds`` ago, or longer where saving takes long."""
        started = time.monotonic()
        if started - self.saved_at < max(self.settings.save_seconds, self.saving / SAVING_SHARE):
            return
        tensors = {LAST + name: tensor for name, tensor in self.network.state_dict().items()}
        tensors |= {BEST + name: tensor for name, tensor in self.best_weights.items()}
        tensors |= {FOLD + name: tensor for name, tensor in self.data.state().items()}
        for index, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"{OPTIMIZER}{index}.{name}": moment for name, moment in moments.items()}
        progress = {name: vars(self)[name] for name in PROGRESS}
        tensor_file.save(self.file, tensors, {"identity": self.identity, "progress": progress})
        self.saved_at = time.monotonic()
        self.saving = self.saved_at - started if self.settings.save_seconds else 0.0

    def delete(self) -> None:
        """Delete the file: the results are safe."""
        self.file.unlink(missing_ok=True)
        remove_leftovers(self.file)

    def _resume(self) -> None:
        """Go on from the file, unless it is damaged or another run's."""
        if not self.file.exists():
            return
        try:
            tensors, metadata = tensor_file.load(self.file)
            expect(metadata, {"identity": str, "progress": PROGRESS}, self.file)
        except DataError:
            return
        progress = metadata["progress"]
        if metadata["identity"] != self.identity or set(progress) != set(PROGRESS):
            return
        moments: dict[int, dict[str, Tensor]] = {}  # by the parameter's number
        for name, moment in _below(tensors, OPTIMIZER).items():
            index, _, kind = name.partition(".")
            moments.setdefault(int(index), {})[kind] = moment
        self.best_weights = _below(tensors, BEST)
        self.network.load_state_dict(_below(tensors, LAST))
        self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
        self.data.restore(_below(tensors, FOLD))
        vars(self).update(progress, resumed_at=progress["epochs"])


def weights_of(network: nn.Module) -> dict[str, Tensor]:
    """Return a copy of a network's weights, on the CPU."""
    return {name: tensor.detach().cpu().clone() for name, tensor in network.state_dict().items()}


def _below(tensors: Tensors, prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
