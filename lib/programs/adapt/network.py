"""Other networks: a predictor is fine-tuned towards programs of which no latency is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

import numpy as np
from torch import nn

from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.programs.adapt.tuning import Part
from lib.programs.folds import sides_of_fold
from lib.programs.inputs import Programs, device_features, devices_of, load_programs
from lib.programs.task import networks_of
from lib.scoring.trained import Ensemble


@dataclass(frozen=True, eq=False)
class NetworkCase:
    """A fold that has learned from no task of some networks.

    Attributes:
        fold: its number; ``network``: its weights.
        source: the programs that it learned from, with their latencies.
        target: the programs of the networks; their latencies are not known.
        truth: (n, d) the latencies of ``target``, to judge by.
        names: of the networks.
    """

    fold: int
    network: nn.Module
    source: Part
    target: Part
    truth: np.ndarray
    names: tuple[str, ...]


def load_network_case(ensemble: Ensemble, cache: Cache, pattern: str) -> NetworkCase:
    """The case of all networks whose names fit a shell pattern.

    Raises:
        UserError: there is none, or every fold that is trained has learned from their tasks.
    """
    called = {name: networks_of(row) for name, row in cache.rows.items()}
    every = sorted({name for names in called.values() for name in names})
    matching = tuple(name for name in every if fnmatchcase(name, pattern))
    if not matching:
        raise UserError(f"network {pattern!r}: none of the data's {len(every)} has such a name")
    if ensemble.settings.split == "random":
        raise UserError("--split random: its folds learn from all networks; train without it")
    tasks = {name for name, names in called.items() if set(names) & set(matching)}
    for fold, network in ensemble.networks.items():
        sides = sides_of_fold(cache, fold, ensemble.settings)
        if not tasks & set(sides["train"]):
            held = {**sides["valid"], **sides["test"]}
            parts = sides["train"], {name: held[name] for name in sorted(tasks & set(held))}
            source, target = (load_programs(cache, chosen) for chosen in parts)
            devices = device_features(devices_of(cache))
            return NetworkCase(
                fold=fold,
                network=network,
                source=Part(source, devices),
                target=Part(_blank(target), devices),
                truth=target.seconds,
                names=matching,
            )
    raise UserError(
        f"network {pattern!r}: each of the folds {_listed(list(ensemble.networks))} has learned "
        "from tasks of it; name one that is kept for the test, or train the other folds"
    )


def _blank(programs: Programs) -> Programs:
    """The same without latencies."""
    return replace(programs, seconds=np.full_like(programs.seconds, np.nan))


def _listed(folds: Sequence[int]) -> str:
    return ", ".join(map(str, sorted(folds)))
