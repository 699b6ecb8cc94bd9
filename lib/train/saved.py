"""The training state on disk: all that a killed run needs to go on, checked before it is used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lib.files import checkpoint
from lib.files.errors import DataError
from lib.files.schema import expect

LAST, BEST, OPTIMIZER = "last.", "best.", "optimizer."  # what names of tensors begin with
MOMENTS: dict[type[torch.optim.Optimizer], tuple[str, ...]] = {  # of each parameter
    torch.optim.AdamW: ("step", "exp_avg", "exp_avg_sq"),
    torch.optim.SGD: ("momentum_buffer",),
}
PROGRESS = {"epochs": int, "best": dict, "last": dict, "history": [dict]}
Tensors = Mapping[str, Tensor]


@dataclass
class Progress:
    """Where a run stands: epochs done, a row of history for each, best and last validation.

    A validation is ``{"epoch", metric, "graphs"}``, such as ``tau``: its mean over the fold's
    validation graphs, and each graph's; empty if there was none with finite scores.
    """

    epochs: int = 0
    best: dict[str, Any] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, float]] = field(default_factory=list)


def save_state(
    path: Path,
    identity: str,
    network: nn.Module,
    best: Tensors,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
) -> None:
    """Write a training state.

    Args:
        path: the file.
        identity: of the run.
        network: with the weights of the last epoch.
        best: weights of the best one.
        optimizer: with its moments.
        progress: of the run.
    """
    tensors = {LAST + name: tensor for name, tensor in network.state_dict().items()}
    tensors |= {BEST + name: tensor for name, tensor in best.items()}
    for index, moments in optimizer.state_dict()["state"].items():
        tensors |= {f"{OPTIMIZER}{index}.{name}": tensor for name, tensor in moments.items()}
    checkpoint.save(path, tensors, {"identity": identity, "progress": vars(progress)})


@dataclass(frozen=True)
class Saved:
    """A training state that was read, and fits."""

    last: Tensors
    best: Tensors
    moments: dict[int, dict[str, Tensor]]
    progress: Progress

    def restore(self, network: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Give a network and its optimizer what was saved of them."""
        network.load_state_dict(self.last)
        optimizer.load_state_dict({**optimizer.state_dict(), "state": self.moments})


def read_state(
    path: Path, identity: str, network: nn.Module, optimizer: torch.optim.Optimizer
) -> Saved | None:
    """A saved state of this very run, with what goes into this network and optimizer.

    ``None`` if there is none: no file, a damaged one, one of another run or of another format.
    """
    if not path.exists():
        return None
    try:
        tensors, about = checkpoint.load(path)
        expect(about, {"identity": str, "progress": PROGRESS}, path)
    except DataError:
        return None
    if about["identity"] != identity or set(about["progress"]) != set(PROGRESS):
        return None
    last, best = _below(tensors, LAST), _below(tensors, BEST)
    moments = _moments(_below(tensors, OPTIMIZER), optimizer)
    if moments is None or not all(_alike(one, network.state_dict()) for one in (last, best)):
        return None
    return Saved(last, best, moments, Progress(**about["progress"]))


def _moments(
    tensors: Tensors, optimizer: torch.optim.Optimizer
) -> dict[int, dict[str, Tensor]] | None:
    """Moments by the parameter's number; ``None`` unless they are those of the optimizer's."""
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    names = MOMENTS[type(optimizer)]
    wanted = {
        f"{index}.{name}": torch.zeros(()) if name == "step" else parameter
        for index, parameter in enumerate(parameters)
        for name in names
    }
    found: dict[int, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        if name not in wanted or wanted[name].shape != tensor.shape:
            return None
        index, _, moment = name.partition(".")
        found.setdefault(int(index), {})[moment] = tensor
    whole = all(len(moments) == len(names) for moments in found.values())
    return found if whole else None


def _alike(tensors: Tensors, wanted: Tensors) -> bool:
    """Whether names, shapes and types are the same."""
    return tensors.keys() == wanted.keys() and all(
        (tensor.shape, tensor.dtype) == (wanted[name].shape, wanted[name].dtype)
        for name, tensor in tensors.items()
    )


def _below(tensors: Tensors, prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
