"""A predictor corrected for a device: by a factor on its predictions, or networks trained further.

Errors after are of programs whose tasks nothing was fitted to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from torch import nn

from lib.programs.devices import predicted_seconds
from lib.programs.inputs import Programs
from lib.programs.losses import STEEPEST
from lib.scoring.trained import Ensemble

SHIFTS = np.linspace(-1, 1, 401)  # of logarithms, that are tried around their middle
PARTS = 5  # of the tasks, each predicted by a predictor that was fitted to the others
Tune = Callable[[int, nn.Module, Programs], nn.Module]  # of fold, network, programs to learn from


def fit(
    ensemble: Ensemble,
    programs: Programs,
    device: Mapping[str, Any],
    tune: Tune,
    always: bool = False,
) -> dict[str, Any]:
    """The factor, errors before and after, and whether networks are to be tuned.

    They are if that does better than the factor; of tuning, the error is that of the first network
    alone. As in training, where a prediction is :data:`STEEPEST` too large, it pulls no further:
    else a few programs that are predicted far too slow would draw all others down.

    Args:
        ensemble: the predictor.
        programs: with (n, 1) seconds on the device.
        device: as the data have devices.
        tune: how a network is trained further.
        always: tune without a comparison.
    """
    truth = np.log(programs.seconds[:, 0])
    gap = np.log(predicted_seconds(ensemble, programs, device)) - truth
    (fold, network), *_ = ensemble.networks.items()
    times, tunes = gap.copy(), gap.copy()
    for held in parts_of(programs.task):
        if held.all():  # one task alone: nothing else says anything of it
            continue
        times[held] += best_factor(gap[~held], STEEPEST)
        trained = {fold: tune(fold, network, programs.some(~held))}
        part = predicted_seconds(replace(ensemble, networks=trained), programs.some(held), device)
        tunes[held] = np.log(part) - truth[held]
    better = always or error_of(tunes, STEEPEST) < error_of(times, STEEPEST)
    return {
        "factor": 1.0 if better else float(f"{np.exp(best_factor(gap, STEEPEST)):.4g}"),
        "before": round(error_of(gap), 4),
        "after": round(error_of(tunes if better else times), 4),
        "tunes": better,
    }


def best_factor(gap: np.ndarray, most: float = np.inf) -> float:
    """The number that, added to logarithms that are off by (n,) ``gap``, makes the relative error
    least, however far they are off; ``most`` as in :func:`error_of`.
    """
    middle = float(np.median(gap))
    costs = [error_of(gap - middle + shift, most) for shift in SHIFTS]
    return float(SHIFTS[int(np.argmin(costs))]) - middle


def error_of(gap: np.ndarray, most: float = np.inf) -> float:
    """Mean relative error of logarithms that are off by ``gap``.

    A prediction that is too large by more than ``most`` counts as if it were by that.
    """
    return float(np.abs(np.expm1(np.minimum(gap, most))).mean())


def parts_of(task: np.ndarray) -> Iterator[np.ndarray]:
    """(n,) bool of the programs of a part of the tasks, part by part; ``PARTS`` at most."""
    place = np.unique(task, return_inverse=True)[1]
    for part in range(min(PARTS, int(place.max()) + 1)):
        yield place % PARTS == part
