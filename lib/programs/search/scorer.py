"""Predictions for a task's schedules, corrected by the schedules that were measured.

A predictor is off by nearly the same on schedules that are alike. So what it misses is taken as a
smooth function of a program's pooled features, and fitted to the measured ones by a Gaussian
process: near a measured program the correction is what was missed there, far from all of them
their mean.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np

from lib.programs.inputs import Programs, described_programs
from lib.programs.messages import Message
from lib.programs.pooled import pooled_rows

FEWEST = 4  # measured programs that are corrected by
Predict = Callable[[Programs], np.ndarray]


class Scorer:
    """Predictions for the schedules of one task.

    Args:
        predict: (n,) logarithms of seconds, of n programs.
        update: whether what was measured corrects what is predicted.
    """

    def __init__(self, predict: Predict, update: bool = True):
        self.predict, self.update = predict, update
        self.rows: list[np.ndarray] = []
        self.missed: list[np.ndarray] = []
        self.correction: Callable[[np.ndarray], np.ndarray] | None = None

    def __call__(self, programs: Programs) -> np.ndarray:
        """Return (n,) logarithms of the seconds that programs take."""
        logs = self.predict(programs)
        if self.correction is None:
            return logs
        return logs + self.correction(pooled_rows(programs))

    def learn(self, programs: Programs, seconds: np.ndarray) -> None:
        """Take in (n,) measured seconds, NaN of programs that do not run."""
        measured = np.isfinite(seconds)
        if not self.update or not measured.any():
            return
        logs = self.predict(programs)
        self.rows.append(pooled_rows(programs)[measured])
        self.missed.append(np.log(seconds[measured]) - logs[measured])
        rows, missed = np.concatenate(self.rows), np.concatenate(self.missed)
        if len(rows) >= FEWEST:
            self.correction = fitted(rows, missed)


def scores(scorer: Scorer, message: Message) -> np.ndarray:
    """Return (n,) logarithms of a message's programs' seconds, NaN where one cannot be read."""
    joined = message[1]["joined"].astype(bool)
    logs = np.full(len(joined), np.nan)
    if joined.any():
        logs[joined] = scorer(programs_of(message))
    return logs


def learn(scorer: Scorer, message: Message) -> None:
    """Give a scorer what was measured of a message's programs."""
    joined = message[1]["joined"].astype(bool)
    if joined.any():
        scorer.learn(programs_of(message), message[1]["seconds"][joined])


def programs_of(message: Message) -> Programs:
    """Return the programs of a message, those that can be read."""
    metadata, arrays = message
    owner = np.zeros(len(arrays["joined"]), np.int64)
    return described_programs(arrays, [metadata["task"]], owner)


def fitted(rows: np.ndarray, missed: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Fit a Gaussian process through (n,) values of (n, features) rows, with noise."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    middle, scale = rows.mean(0), rows.std(0)
    varying = scale > 1e-6

    def place(features: np.ndarray) -> np.ndarray:
        """Return rows in units of how measured rows vary, all features together one unit."""
        varied = (features[:, varying] - middle[varying]) / scale[varying]
        return varied.astype(np.float64) / np.sqrt(max(1, varying.sum()))

    if not varying.any():
        level = float(missed.mean())
        return lambda features: np.full(len(features), level)
    kernel = ConstantKernel(0.1, (1e-3, 10)) * RBF(1.0, (0.2, 10)) + WhiteKernel(0.01, (1e-4, 1))
    level = float(missed.mean())
    process = GaussianProcessRegressor(kernel, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a bound is as good an answer
        process.fit(place(rows), missed - level)
    return lambda features: process.predict(place(features)) + level
