"""The training state: how far a fold has come, and the file that a killed run goes on from.

It is none of the fold's results: when training has ended, 02_train.py writes these, two files of
weights among them, and deletes it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Generic

import polars as pl
import torch
from torch import Tensor, nn

from lib.files import tensor_file
from lib.files.artifacts import fingerprint_value, remove_leftovers
from lib.files.errors import DataError, UserError
from lib.files.schema import expect
from lib.models import computed_by
from lib.ranking.metrics import mean_metrics
from lib.runs.provenance import versions
from lib.train.fold import Fold, Network
from lib.train.processes import Processes

LAST, BEST, OPTIMIZER = "last.", "best.", "optimizer."  # what names of tensors begin with
MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # of each parameter, by Adam and AdamW
PROGRESS = {"epochs": int, "validations": {"best": dict, "last": dict}, "history": [dict]}
Tensors = Mapping[str, Tensor]
Moments = dict[int, dict[str, Tensor]]  # by the parameter's number


class TrainingState(Generic[Network]):
    """A network in training, its optimizer, and how far they have come.

    Args:
        network, optimizer: that are trained.
        data: what the network is validated on, and the settings.
        fold: its number.
        processes: that train together; the first one validates, and writes the file.

    Attributes:
        epochs: that are done.
        history: a row for each.
        validations: ``best`` and ``last``, each ``{"epoch", metric, "graphs"}``, such as ``tau``:
            its mean over the fold's validation graphs, and each graph's; empty if there was none
            with finite scores.
        best_weights: of the best validation.
        resumed_at: epochs that earlier runs have done.
    """

    def __init__(
        self,
        network: Network,
        optimizer: torch.optim.Optimizer,
        data: Fold[Network, Any],
        fold: int,
        processes: Processes,
    ):
        self.network, self.optimizer, self.data = network, optimizer, data
        self.settings, self.fold, self.processes = data.settings, fold, processes
        self.epochs, self.resumed_at = 0, 0
        self.history: list[dict[str, float]] = []
        self.validations: dict[str, dict[str, Any]] = {"best": {}, "last": {}}
        self.best_weights: Tensors = _copy(network)

    def add(self, row: dict[str, float]) -> None:
        """An epoch is done."""
        self.epochs += 1
        self.history.append(row)

    def history_frame(self) -> pl.DataFrame:
        """A row an epoch; columns in the order of their names, ``epoch`` first."""
        frame = pl.DataFrame(self.history, infer_schema_length=None)
        return frame.select("epoch", *sorted(set(frame.columns) - {"epoch"}))

    def validate(self, passes: float, is_last: bool) -> dict[str, float]:
        """Mean metrics over the validation graphs; the best weights are kept if these are they.

        Args:
            passes: over the training graphs, at the end of this epoch.
            is_last: whether training ends with it; other epochs may go without a validation.
        """
        if not self.processes.first:
            return {}
        if (self.epochs + 1) % self.settings.validate_every and not is_last:
            return {}
        graphs = self.data.validate(self.network.eval())
        last = self.validations["last"] = self._validation(passes, graphs)
        if not last:
            return {}
        if self._is_better(last, self.validations["best"]):
            self.validations["best"], self.best_weights = last, _copy(self.network)
        mean = mean_metrics(list(graphs.values()))
        return {f"validation_{name}": value for name, value in mean.items()}

    def validate_whole(self) -> None:
        """Validate the weights that stage 3 uses on every configuration, where epochs were on some.

        Folds are compared by that. The other weights keep the validation of their epoch.
        """
        used = self.settings.weights
        validation = self.validations[used]
        if not validation or not self.data.samples_validation():
            return
        trained = _copy(self.network)
        self.network.load_state_dict(trained if used == "last" else self.best_weights)
        graphs = self.data.validate(self.network.eval(), whole=True)
        self.network.load_state_dict(trained)
        self.validations[used] = self._validation(validation["epoch"], graphs)

    def validation(self, name: str) -> dict[str, Any]:
        """One of the validations; raises UserError if there was none with finite scores."""
        if not self.validations[name]:
            raise UserError(f"fold {self.fold} diverged: lower --learning-rate, or --weights best")
        return self.validations[name]

    def _validation(self, epoch: float, graphs: Mapping[str, dict[str, float]]) -> dict[str, Any]:
        if not graphs:
            return {}
        metric = self.settings.metric
        values = {name: metrics[metric] for name, metrics in graphs.items()}
        mean = mean_metrics(list(graphs.values()))
        return {"epoch": epoch, metric: mean[metric], "graphs": values}

    def _is_better(self, validation: dict[str, Any], best: dict[str, Any]) -> bool:
        """Whether a validation is above another; above none, any is."""
        metric, sign = self.settings.metric, 1 if self.settings.higher_is_better else -1
        return not best or sign * (validation[metric] - best[metric]) > 0

    def resume(self, file: Path, identity: str) -> None:
        """Go on from a file if it is of this very run; later runs will go on from it.

        Args:
            file: need not be there.
            identity: fingerprint of data, settings and code. A file of another run is
                ignored, and so is one that something else computed, such as another version of
                torch, whose sums are rounded otherwise.
        """
        parts: list[Any] = [identity, versions(), computed_by(self.network)]
        if self.processes.count > 1:  # whose sums are rounded otherwise, too
            parts.append(self.processes.count)
        self.file, self.identity, self.saved_at = file, fingerprint_value(parts), time.monotonic()
        saved, beside = self._read(), self.data.beside
        epochs = int(self.processes.least(saved[-1]["epochs"] if saved else 0))
        if not self.processes.least(beside.begin(file, self.identity, epochs)):
            epochs = 0
            if self.processes.first:
                file.unlink()  # or a kill before the next save would leave it with what is anew
            beside.begin(file, self.identity, 0)
        if saved and epochs:
            last, self.best_weights, moments, progress = saved
            self.network.load_state_dict(last)
            self.optimizer.load_state_dict({**self.optimizer.state_dict(), "state": moments})
            vars(self).update(progress, resumed_at=progress["epochs"])

    def save_if_due(self) -> None:
        """Write the file, if that is ``save_seconds`` ago."""
        due = time.monotonic() - self.saved_at >= self.settings.save_seconds
        if not self.processes.broadcast(due):
            return
        if self.processes.first:
            self._write()
        self.processes.broadcast(True)  # what is kept beside it belongs to it only now
        self.data.beside.saved(self.epochs)
        self.saved_at = time.monotonic()

    def delete(self) -> None:
        """The results are safe: the file, and what was kept beside it, can go."""
        self.data.beside.end()
        self.file.unlink(missing_ok=True)
        remove_leftovers(self.file)

    def _write(self) -> None:
        tensors = {LAST + name: tensor for name, tensor in self.network.state_dict().items()}
        tensors |= {BEST + name: tensor for name, tensor in self.best_weights.items()}
        for index, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"{OPTIMIZER}{index}.{name}": moment for name, moment in moments.items()}
        progress = {name: vars(self)[name] for name in PROGRESS}
        tensor_file.save(self.file, tensors, {"identity": self.identity, "progress": progress})

    def _read(self) -> tuple[Tensors, Tensors, Moments, dict[str, Any]] | None:
        """Last and best weights, moments and progress of the file.

        ``None`` if there is none, or a damaged one, or that of another run or of another format.
        """
        if not self.file.exists():
            return None
        try:
            tensors, about = tensor_file.load(self.file)
            expect(about, {"identity": str, "progress": PROGRESS}, self.file)
        except DataError:
            return None
        if about["identity"] != self.identity or set(about["progress"]) != set(PROGRESS):
            return None
        last, best = _below(tensors, LAST), _below(tensors, BEST)
        moments = _moments(_below(tensors, OPTIMIZER), self.optimizer)
        expected = self.network.state_dict()
        if moments is None or not all(_alike(weights, expected) for weights in (last, best)):
            return None
        return last, best, moments, about["progress"]


def _moments(tensors: Tensors, optimizer: torch.optim.Optimizer) -> Moments | None:
    """Moments of tensors by name; ``None`` unless they are those of the optimizer's parameters."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    expected = {
        f"{index}.{name}": torch.zeros(()) if name == "step" else parameter
        for index, parameter in enumerate(parameters)
        for name in MOMENTS
    }
    of_parameters: Moments = {}
    for name, tensor in tensors.items():
        if name not in expected or expected[name].shape != tensor.shape:
            return None
        index, _, moment = name.partition(".")
        of_parameters.setdefault(int(index), {})[moment] = tensor
    whole = all(len(moments) == len(MOMENTS) for moments in of_parameters.values())
    return of_parameters if whole else None


def _alike(tensors: Tensors, expected: Tensors) -> bool:
    """Whether names, shapes and types are the same."""
    return tensors.keys() == expected.keys() and all(
        (tensor.shape, tensor.dtype) == (expected[name].shape, expected[name].dtype)
        for name, tensor in tensors.items()
    )


def _below(tensors: Tensors, prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _copy(network: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach().cpu().clone() for name, tensor in network.state_dict().items()}
