"""Predictors of tensor programs' latencies, each trained on the same programs.

A rival learns from one :class:`Side` and predicts others: logarithms of seconds, (n, d).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from lib.files.named import named
from lib.programs.inputs import Programs, predict
from lib.programs.pooled import POOLED, pooled_rows
from lib.programs.settings import TRANSFORMS, ProgramCollection
from lib.settings import MODELS
from tests.training_loop import Training

ROUNDS = 300  # of boosting
BOOSTING = {
    **{"tree_method": "hist", "nthread": 1, "max_bin": 64, "max_depth": 8, "eta": 0.06},
    **{"subsample": 0.7, "colsample_bytree": 0.2, "min_child_weight": 3},
}


@dataclass(frozen=True)
class Case:
    """What there is to learn from and to predict.

    Attributes:
        train, valid, test: programs.
        devices: (d, 11).
        called: task -> networks that call it.
        seed: of weights, and of what boosting is shown.
        split: ``networks`` or ``random``.
    """

    train: Programs
    valid: Programs
    test: Programs
    devices: torch.Tensor
    called: Mapping[str, tuple[str, ...]]
    seed: int
    split: str


def network(model: str, **changes: object) -> Callable[[Case], np.ndarray]:
    """A model of this repository with settings of its own."""
    return lambda case: _trained(case, model, **changes)(case.test)


def _trained(case: Case, model: str, **changes: object) -> Callable[[Programs], np.ndarray]:
    chosen: ProgramCollection = MODELS["programs"][model](
        "programs-cpu", seed=case.seed, split=case.split, **changes
    )
    data = named(chosen.fold)(chosen, case.train, case.valid, case.devices)
    with tempfile.TemporaryDirectory() as folder:
        training = Training(data, 0, Path(folder) / "state", "bench")
        list(training.run())
    found = training.network.eval()
    return lambda programs: predict(found, programs, case.devices, chosen.batch)


def _table(programs: Programs, case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Pooled features of programs and devices, and the work that labels are over."""
    rows = pooled_rows(programs)
    both = [np.broadcast_to(rows[:, None], (len(rows), len(case.devices), POOLED))]
    both += [np.broadcast_to(case.devices.numpy(), (len(rows), *case.devices.shape))]
    return np.concatenate(both, 2), rows[:, -1].astype(np.float64)


def xgboost(case: Case) -> np.ndarray:
    """XGBoost on pooled features, of latency over work."""
    import xgboost as library

    tables = {side: _table(getattr(case, side), case) for side in ("train", "test")}
    rows, work = tables["train"]
    wanted = np.log(case.train.seconds) - work[:, None]
    known = np.isfinite(wanted)
    matrix = library.DMatrix(rows[known], wanted[known])
    made = library.train({**BOOSTING, "seed": case.seed}, matrix, ROUNDS)
    rows, work = tables["test"]
    predicted = made.predict(library.DMatrix(rows.reshape(-1, rows.shape[2])))
    return predicted.reshape(rows.shape[:2]) + work[:, None]


def with_less(share: float, of: str) -> Callable[[Case], np.ndarray]:
    """``cdmpp-plus`` that learns from a share of the programs, as drawn or chosen, or of the
    networks' tasks."""

    def run(case: Case) -> np.ndarray:
        kept = LESS[of](case, share)
        return network("cdmpp-plus")(replace(case, train=case.train.some(kept)))

    return run


def _some_programs(case: Case, share: float) -> np.ndarray:
    return np.random.default_rng([case.seed, 1]).random(len(case.train)) < share


def _some_networks(case: Case, share: float) -> np.ndarray:
    """The programs of the tasks that a share of the networks calls, of those with any."""
    known = sorted({one for task in case.train.tasks for one in case.called[task]})
    order = np.random.default_rng([case.seed, 2]).permutation(len(known))
    some = {known[k] for k in order[: max(1, round(share * len(known)))]}
    tasks = np.array([bool(some & set(case.called[task])) for task in case.train.tasks])
    return tasks[case.train.task]


def _spread(case: Case, share: float) -> np.ndarray:
    """Of each task the programs that are farthest from those before, by pooled features."""
    rows = pooled_rows(case.train).astype(np.float64)
    rows = (rows - rows.mean(0)) / (rows.std(0) + 1e-6)
    kept = np.zeros(len(rows), bool)
    for task in np.unique(case.train.task):
        (own,) = np.nonzero(case.train.task == task)
        nearest, chosen = np.full(len(own), np.inf), 0
        for _ in range(max(1, round(share * len(own)))):
            kept[own[chosen]] = True
            nearest = np.minimum(nearest, ((rows[own] - rows[own[chosen]]) ** 2).sum(1))
            chosen = int(nearest.argmax())
    return kept


def _disputed(case: Case, share: float) -> np.ndarray:
    """Half of them at random, then those of which two networks that have learned from that half
    say most different things: the more different, the more probable."""
    kept = _some_programs(case, share / 2)
    half = replace(case, train=case.train.some(kept))
    one, other = (
        _trained(replace(half, seed=case.seed + turn), "cdmpp-plus")(case.train)
        for turn in (0, 100)
    )
    gap = np.where(kept, 0, np.abs(one - other).mean(1))
    more = round(share * len(kept)) - kept.sum()
    generator = np.random.default_rng([case.seed, 3])
    kept[generator.choice(len(kept), more, replace=False, p=gap / gap.sum())] = True
    return kept


LESS: dict[str, Callable[[Case, float], np.ndarray]] = {
    "programs": _some_programs,
    "networks": _some_networks,
    "programs, spread": _spread,
    "programs, disputed": _disputed,
}
VARIANTS: dict[str, Callable[[Case], np.ndarray]] = {
    "cdmpp-plus": network("cdmpp-plus"),
    "cdmpp": network("cdmpp"),
    "xgboost": xgboost,
}
# What CDMPP takes out or exchanges one at a time (its tables 3 to 5 and figure 14a); "cdmpp" among
# VARIANTS has Box and Cox's labels, the error of both kinds and the encoding of places.
ABLATIONS: dict[str, Callable[[Case], np.ndarray]] = {
    **{f"cdmpp, {one}": network("cdmpp", label_transform=one) for one in TRANSFORMS[1:]},
    "cdmpp, no places": network("cdmpp", positional=False),
}
SHARES = (1 / 8, 1 / 4, 1 / 2)
CURVES: dict[str, Callable[[Case], np.ndarray]] = {
    f"cdmpp-plus, {share:.3g} of the {of}": with_less(share, of)
    for of in LESS
    for share in (SHARES if "," not in of else SHARES[1:2])
}
MEASURABLE = {**VARIANTS, **ABLATIONS, **CURVES}
