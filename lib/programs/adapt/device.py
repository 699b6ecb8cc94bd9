"""A predictor for another device: what it predicts, by each method, from the chosen tasks alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from lib.programs.adapt.case import Case, Visible, pooled_rows
from lib.programs.adapt.judge import judged
from lib.programs.adapt.transfer import (
    Table,
    best_factor,
    corrected,
    known_or_predicted,
    scaled_source,
)
from lib.programs.adapt.tuning import AdaptFold, Part, fine_tune
from lib.programs.inputs import Programs, predict
from lib.programs.settings import ProgramCollection

SCALED, MODEL, TUNED, CORRECTED = (
    "source latency x factor",
    "source model x factor",
    "fine-tuned network",
    "corrected latency",
)
PREDICTORS = (SCALED, MODEL, TUNED, CORRECTED)  # in the order of the report
OTHERS, TEST = "other tasks, measured on the sources", "networks of the test, measured nowhere"
WARMUP = 0.1  # share of fine-tuning with a rising rate
SIZE = 1024  # programs that are predicted at a time
Predictions = dict[str, tuple[np.ndarray, np.ndarray]]  # by method: of programs, and of the test


@dataclass(frozen=True)
class FineTuning:
    """How a network is fine-tuned.

    Attributes:
        alpha: what the discrepancy counts (equation 7).
        epochs: of ``EPOCH`` steps.
        rate: peak of the learning rate.
    """

    alpha: float = 1.0
    epochs: int = 5
    rate: float = 1e-4

    def of(self, settings: ProgramCollection) -> ProgramCollection:
        """The settings of a network as it is fine-tuned."""
        return replace(settings, epochs=self.epochs, learning_rate=self.rate, warmup=WARMUP)


def by_baselines(case: Visible, network: nn.Module) -> Predictions:
    """The measured latency of the best source times a factor, and the network's times one."""
    seconds, known = case.programs.seconds, case.known
    with np.errstate(invalid="ignore"):
        sources = np.log(seconds[:, :-1])
    scaled = scaled_source(sources, known, case.target)
    nowhere = np.full(len(case.test), np.nan)
    return {SCALED: (scaled, nowhere), MODEL: _predicted(network, case)}


def by_correction(case: Visible, network: nn.Module, seed: int) -> Predictions:
    """What :mod:`lib.programs.adapt.transfer` makes of latencies of the sources."""
    parts = (case.programs, case.test)
    tables = [_table(part, network, case) for part in parts]
    known, task = case.known, case.programs.task
    logs = corrected(tables[0].some(known), case.target, task[known], tables, seed)
    return {CORRECTED: (logs[0], logs[1])}


def by_fine_tuning(
    case: Visible,
    network: nn.Module,
    settings: ProgramCollection,
    tuning: FineTuning,
    draw: int,
    state: Path,
    identity: str,
) -> Predictions:
    """The network after it was trained further, whose weights change (section 5.3).

    Times a factor, as the baselines have one.

    Args:
        case: the case.
        network: trained on the sources.
        settings: of it.
        tuning: how.
        draw: part of the seed.
        state: file of the training state, while it is trained.
        identity: of what the result depends on.
    """
    whole = case.programs
    source = Part(replace(whole, seconds=whole.seconds[:, :-1]), case.devices[:-1])
    target = Part(replace(whole, seconds=whole.seconds[:, -1:]), case.devices[-1:])
    parts = source.with_latencies(), target.with_latencies(), target
    data = AdaptFold(*parts, tuning.alpha, tuning.of(settings))
    fine_tune(network, data, draw, state, identity)
    return {TUNED: _predicted(network, case)}


def report(case: Case, chosen: np.ndarray, predictions: Predictions) -> list[dict[str, Any]]:
    """``section, method`` and numbers of each method, on all tasks but the chosen ones."""
    others = ~np.isin(case.programs.task, chosen)
    every = np.ones(len(case.test), bool)
    sides = ((OTHERS, case.programs, others), (TEST, case.test, every))
    rows = []
    for place, (section, programs, among) in enumerate(sides):
        for method in PREDICTORS:
            logs, seconds = predictions[method][place][:, None], programs.seconds[:, -1:]
            if np.isfinite(logs).any():
                numbers = judged(logs, seconds, programs.first, among)
                rows.append({"section": section, "method": method, **numbers})
    return rows


def _table(programs: Programs, network: nn.Module, case: Visible) -> Table:
    """What the correction reads of some programs."""
    seconds = programs.seconds[:, :-1]
    predicted = np.zeros_like(seconds)
    if not np.isfinite(seconds).all():
        predicted = predict(network, programs, case.devices[:-1], SIZE)
    return Table(pooled_rows(programs), known_or_predicted(seconds, predicted))


def _predicted(network: nn.Module, case: Visible) -> tuple[np.ndarray, np.ndarray]:
    """What the network says of both parts on the target, times the factor that fits best."""
    target = case.devices[-1:]
    logs = [predict(network, part, target, SIZE)[:, 0] for part in (case.programs, case.test)]
    shift = best_factor(logs[0][case.known] - case.target)
    return logs[0] + shift, logs[1] + shift
