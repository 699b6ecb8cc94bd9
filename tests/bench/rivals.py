"""Predictors of tensor programs' latencies, each trained on the same programs.

A rival learns from one :class:`Side` and predicts others: logarithms of seconds, (n, d).
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from lib.files.named import named
from lib.models.common.build import network_for
from lib.programs.adapt.case import POOLED, pooled_rows
from lib.programs.adapt.transfer import BOOSTING, best_factor
from lib.programs.inputs import Programs, predict
from lib.programs.settings import LOSS_NAMES, TRANSFORMS, ProgramCollection
from lib.settings import MODELS
from lib.training.fold import new_network
from lib.training.loop import FoldTraining
from tests.bench.recursive import RecursiveLstm, Trees

ROUNDS = 300  # of boosting


@dataclass(frozen=True)
class Case:
    """What there is to learn from and to predict.

    Attributes:
        train, valid, test: programs.
        rows: of each, numbers in the dataset's table.
        devices: (d, 11).
        trees: of the whole dataset.
        called: task -> networks that call it.
        seed: of weights, and of what boosting is shown.
        split: ``networks`` or ``random``.
        boosted: what boosting predicts of the sides that it has not learned from, once it has.
    """

    train: Programs
    valid: Programs
    test: Programs
    rows: dict[str, np.ndarray]
    devices: torch.Tensor
    trees: Trees
    called: Mapping[str, tuple[str, ...]]
    seed: int
    split: str
    boosted: dict[str, np.ndarray] = field(default_factory=dict)

    def place(self, side: str, rows: np.ndarray) -> np.ndarray:
        """Where rows of the dataset's table are among the programs of a side."""
        order = np.argsort(self.rows[side])
        return order[np.searchsorted(self.rows[side], rows, sorter=order)]


def calibrated(valid: np.ndarray, test: np.ndarray, programs: Programs) -> np.ndarray:
    """``test`` times the factor that gives the least relative error on the validation programs."""
    known = np.isfinite(programs.seconds)
    gap = valid[known] - np.log(programs.seconds[known])
    return test + best_factor(gap)


def network(model: str, **changes: object) -> Callable[[Case], np.ndarray]:
    """A model of this repository with settings of its own."""

    def run(case: Case) -> np.ndarray:
        chosen: ProgramCollection = MODELS["programs"][model](
            "programs-cpu", seed=case.seed, split=case.split, **changes
        )
        data = named(chosen.fold)(case.train, case.valid, case.devices, chosen)
        made = new_network(lambda: network_for(chosen), data, case.seed, 0)
        training = FoldTraining(made, data, 0)
        with tempfile.TemporaryDirectory() as folder:
            list(training.run(Path(folder) / "state", "bench"))
        return predict(made.eval(), case.test, case.devices, chosen.batch)

    return run


def _tables(case: Case) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Pooled features of each side's programs and devices, and the work that labels are over."""
    found = {}
    for side in ("train", "valid", "test"):
        rows = pooled_rows(getattr(case, side))
        both = [np.broadcast_to(rows[:, None], (len(rows), len(case.devices), POOLED))]
        both += [np.broadcast_to(case.devices.numpy(), (len(rows), *case.devices.shape))]
        found[side] = np.concatenate(both, 2), rows[:, -1].astype(np.float64)
    return found


def xgboost(factor: bool) -> Callable[[Case], np.ndarray]:
    """XGBoost on pooled features, of latency over work.

    It learns once of a case: the variant with the factor predicts the same.
    """

    def run(case: Case) -> np.ndarray:
        case.boosted.update(case.boosted or _boosted(case))
        if not factor:
            return case.boosted["test"]
        return calibrated(case.boosted["valid"], case.boosted["test"], case.valid)

    return run


def _boosted(case: Case) -> dict[str, np.ndarray]:
    import xgboost as library

    tables = _tables(case)
    rows, work = tables["train"]
    wanted = np.log(case.train.seconds) - work[:, None]
    known = np.isfinite(wanted)
    about = {**BOOSTING, "max_depth": 8, "eta": 0.06, "seed": case.seed}
    made = library.train(about, library.DMatrix(rows[known], wanted[known]), ROUNDS)
    return {
        side: made.predict(library.DMatrix(own.reshape(-1, own.shape[2]))).reshape(own.shape[:2])
        + done[:, None]
        for side, (own, done) in tables.items()
        if side != "train"
    }


def with_less(share: float, of: str) -> Callable[[Case], np.ndarray]:
    """``cdmpp-plus`` that learns from a share of the programs, or of the networks' tasks."""

    def run(case: Case) -> np.ndarray:
        kept = _some_programs(case, share) if of == "programs" else _some_networks(case, share)
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


def recursive_lstm(case: Case, epochs: int = 8, size: int = 256) -> np.ndarray:
    """A recursive LSTM over the tree; logarithms of latencies, squared errors."""
    made, optimizer = lstm_of(case)
    rows, read = case.rows["train"], case.trees.read_mixed
    steps, each = 0, -(-len(rows) // size)
    for epoch in range(epochs):
        for own in np.array_split(_random(case, epoch).permutation(rows), each):
            for group in optimizer.param_groups:
                group["lr"] = 1e-3 * (1 - steps / (epochs * each))
            lstm_step(made, optimizer, case, own, read)
            steps += 1
    made.eval()
    found = {side: lstm_predictions(made, case, side) for side in ("valid", "test")}
    return calibrated(found["valid"], found["test"], case.valid)


def _random(case: Case, epoch: int) -> np.random.Generator:
    return np.random.default_rng([case.seed, epoch])


def lstm_of(case: Case) -> tuple[RecursiveLstm, torch.optim.Optimizer]:
    """A fresh network, standardized on the training programs."""
    torch.manual_seed(case.seed)
    made = RecursiveLstm()
    made.standardize.fit(torch.from_numpy(case.train.features))
    with torch.no_grad():
        made.level.fill_(float(np.nanmean(np.log(case.train.seconds))))
    return made, torch.optim.AdamW(made.parameters(), lr=1e-3)


def lstm_step(
    made: RecursiveLstm,
    optimizer: torch.optim.Optimizer,
    case: Case,
    own: np.ndarray,
    read: Callable[..., torch.Tensor],
) -> None:
    """One step on programs, rows of the dataset's table, by a way of :class:`Trees` to read."""
    wanted = torch.from_numpy(np.log(case.train.seconds[case.place("train", own)])).float()
    known = torch.isfinite(wanted)
    on = known.any(0)  # the devices that measured any of them
    said = read(made, own, case.devices[on])[known[:, on]]
    loss = (said - wanted[known]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(made.parameters(), 1.0)
    optimizer.step()


@torch.inference_mode()
def lstm_predictions(made: RecursiveLstm, case: Case, side: str) -> np.ndarray:
    """(n, d) predictions of a side's programs."""
    rows = case.rows[side]
    parts = np.array_split(rows, -(-len(rows) // 1024))
    found = [case.trees.read_mixed(made, own, case.devices).numpy() for own in parts]
    return np.concatenate(found).astype(np.float64)


VARIANTS: dict[str, Callable[[Case], np.ndarray]] = {
    "cdmpp-plus": network("cdmpp-plus"),
    "cdmpp": network("cdmpp"),
    "xgboost": xgboost(False),
    "xgboost, with the factor": xgboost(True),
    "recursive LSTM, with the factor": recursive_lstm,
}
# What CDMPP takes out or exchanges one at a time (its tables 3 to 5 and figure 14a); "cdmpp" among
# VARIANTS has Box and Cox's labels, the error of both kinds and the encoding of places.
ABLATIONS: dict[str, Callable[[Case], np.ndarray]] = {
    **{f"cdmpp, {one}": network("cdmpp", label_transform=one) for one in TRANSFORMS[1:]},
    **{f"cdmpp, {one}": network("cdmpp", loss=one) for one in LOSS_NAMES[1:]},
    "cdmpp, no places": network("cdmpp", positional=False),
}
SHARES = (1 / 8, 1 / 4, 1 / 2)
CURVES: dict[str, Callable[[Case], np.ndarray]] = {
    f"cdmpp-plus, {share:.3g} of the {of}": with_less(share, of)
    for of in ("programs", "networks")
    for share in SHARES
}
MEASURABLE = {**VARIANTS, **ABLATIONS, **CURVES}
