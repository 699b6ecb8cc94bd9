"""The network that is adapted: stage 2's of one fold, learned from the source devices alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from lib.cache.reader import Cache
from lib.files import tensor_file
from lib.files.errors import DataError
from lib.files.named import named
from lib.models.common.build import network_for
from lib.programs.adapt.case import Case
from lib.programs.inputs import Programs
from lib.programs.settings import ProgramCollection
from lib.programs.train import load_sides
from lib.runs.provenance import run_identity, versions
from lib.settings import described
from lib.training.fold import new_network
from lib.training.loop import FoldTraining


def source_network(
    case: Case, cache: Cache, settings: ProgramCollection, fold: int, folder: Path
) -> tuple[nn.Module, str]:
    """A network that has seen nothing of the target, in evaluation mode, and its identity.

    Stage 2's own networks have learned from every device of the data. So another one is trained as
    stage 2 does, without the target's latencies, and kept for later calls; killed and called again
    it goes on.

    Args:
        case: which devices.
        cache: of the programs.
        settings: of the network.
        fold: whose training programs it learns from.
        folder: where networks are kept.
    """
    about = {**described(settings), "fold": fold, "data": cache.fingerprint}
    about |= {"sources": list(case.names[:-1])}
    identity = run_identity(about, settings)
    path = folder / f"{identity[:16]}.safetensors"
    if weights := _kept(path, identity):
        network = network_for(settings)
        tensor_file.load_into(network, path, weights)
        return network.eval(), identity
    sides = (_on(side, case.numbers[:-1]) for side in load_sides(cache, fold, settings))
    data = named(settings.fold)(*sides, case.devices[:-1], settings)
    network = new_network(lambda: network_for(settings), data, settings.seed, fold)
    training = FoldTraining(network, data, fold)
    state = path.with_name(f"{path.stem}.state")
    for row in training.run(state, identity):
        if "validation_mape" in row:
            text = f"epoch {row['epoch']:g}, validation mape {row['validation_mape']:.4f}"
            print(f"adapt: {path.stem}: {text}", flush=True)
    tensor_file.save(path, network.state_dict(), {**about, "identity": identity, **versions()})
    training.state.delete()
    return network.eval(), identity


def _kept(path: Path, identity: str) -> dict[str, Any] | None:
    """The weights of a file, if it is there, whole, and of this identity."""
    if not path.exists():
        return None
    try:
        tensors, about = tensor_file.load(path)
    except DataError:
        return None
    return tensors if about.get("identity") == identity else None


def _on(programs: Programs, numbers: tuple[int, ...]) -> Programs:
    """The programs that were measured on some devices, with those latencies alone."""
    seconds = programs.seconds[:, numbers]
    measured = np.isfinite(seconds).any(1)
    return replace(programs, seconds=seconds).some(measured)
