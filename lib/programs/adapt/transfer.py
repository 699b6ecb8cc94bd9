"""Latencies on the target from those on the sources, corrected by what the chosen tasks show.

Whether a program gains from another device depends on its loops; how much the devices differ, on
one number. Gradient boosting learns the first from few programs and is often too bold; a factor is
the second alone. So each source's latency times a factor and the boosted correction stand side by
side, and are blended with weights that fit the chosen tasks best, each of which is predicted by
what was learned from others of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

SHIFTS = np.linspace(-1, 1, 401)  # of logarithms, that are tried around their middle
TASK_FOLDS = 5  # of the chosen tasks, each predicted by what the other tasks teach
STEPS = 10  # members of a blend
BOOSTING: dict[str, Any] = {  # of XGBoost
    "tree_method": "hist",
    "nthread": 1,
    "max_bin": 64,
    "subsample": 0.7,
    "colsample_bytree": 0.2,
    "min_child_weight": 3,
}
GENTLE: dict[str, Any] = {  # for some hundred programs of a few dozen tasks
    **BOOSTING,
    "colsample_bytree": 0.3,
    "max_depth": 4,
    "eta": 0.06,
    "objective": "reg:pseudohubererror",  # most programs gain nothing, some a lot
    "huber_slope": 0.3,
}
ROUNDS, SEEDS = 120, 2  # trees of a sum, and sums that are averaged
Learned = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True, eq=False)
class Table:
    """What the correction reads of n programs.

    Attributes:
        rows: (n, features), pooled, the logarithm of the work last.
        sources: (n, k) logarithms of the seconds on the sources, measured or predicted.
    """

    rows: np.ndarray
    sources: np.ndarray

    @property
    def middle(self) -> np.ndarray:
        """(n,) mean over the sources."""
        return self.sources.mean(1)

    def features(self) -> np.ndarray:
        """(n, more) float32: the rows, how the sources differ, and speed on them."""
        differences = self.sources[:, :-1] - self.sources[:, -1:]
        speed = self.middle - self.rows[:, -1]
        return np.column_stack([self.rows, differences, speed]).astype(np.float32)

    def some(self, chosen: np.ndarray) -> Table:
        """Some of the programs."""
        return Table(self.rows[chosen], self.sources[chosen])


def known_or_predicted(seconds: np.ndarray, predicted: np.ndarray) -> np.ndarray:
    """(n, k) logarithms: of the measured seconds, or as predicted where they are NaN."""
    return np.where(np.isfinite(seconds), np.log(seconds), predicted)


def best_factor(gap: np.ndarray, most: float = np.inf) -> float:
    """What to add to logarithms that are off by ``gap``, (n,), for the least relative error.

    However far they are off; ``most`` as in :func:`error_of`.
    """
    middle = float(np.median(gap))
    costs = [error_of(gap - middle + shift, most) for shift in SHIFTS]
    return float(SHIFTS[int(np.argmin(costs))]) - middle


def error_of(gap: np.ndarray, most: float = np.inf) -> float:
    """Mean relative error of logarithms that are off by ``gap``.

    What is too large by more than ``most`` counts as if it were by that.
    """
    return float(np.abs(np.expm1(np.minimum(gap, most))).mean())


def scaled_source(sources: np.ndarray, known: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The baseline: (n,) the source that fits best, times a factor.

    Args:
        sources: (n, k) logarithms of seconds; NaN where one was not measured.
        known: (n,) which programs were measured on the target.
        target: logarithms of those programs' seconds.
    """
    best, scaled = np.inf, np.full(len(sources), np.nan)
    for column in sources.T:
        gap = column[known] - target
        gap = gap[np.isfinite(gap)]
        if len(gap):
            shift = best_factor(gap)
            if (cost := error_of(gap + shift)) < best:
                best, scaled = cost, column + shift
    return scaled


def corrected(
    learned: Table,
    target: np.ndarray,
    task: np.ndarray,
    tables: Sequence[Table],
    seed: int,
) -> list[np.ndarray]:
    """Logarithms of the seconds on the target, (n,), of each table to predict.

    Args:
        learned: the programs that were measured on the target.
        target: their logarithms of seconds there.
        task: their tasks, any numbers.
        tables: what is to be predicted.
        seed: of the trees.
    """
    inside = np.empty((len(target), learned.sources.shape[1] + 1))
    for held in parts_of(task):
        if held.all():  # one task alone: nothing else predicts it
            inside[held] = np.stack(_members(learned, target, learned, seed), 1)
        else:
            rest = learned.some(~held)
            inside[held] = np.stack(_members(rest, target[~held], learned.some(held), seed), 1)
    weights, shift = blend_of(inside, target)
    return [
        np.stack(_members(learned, target, table, seed), 1) @ weights + shift for table in tables
    ]


def parts_of(task: np.ndarray) -> Iterator[np.ndarray]:
    """(n,) bool of the programs of a part of the tasks, part by part; ``TASK_FOLDS`` at most."""
    place = np.unique(task, return_inverse=True)[1]
    for part in range(min(TASK_FOLDS, int(place.max()) + 1)):
        yield place % TASK_FOLDS == part


def blend_of(members: np.ndarray, target: np.ndarray) -> tuple[np.ndarray, float]:
    """The weights, (m,), of a mean of logarithms, and what to add, for the least relative error.

    Members are added one at a time, each as often as it helps most (ensemble selection, Caruana and
    others, 2004), and the best of these means is taken: no worse than any member alone.

    Args:
        members: (n, m) predicted logarithms.
        target: (n,) the true logarithms.
    """
    counts, best = np.zeros(members.shape[1]), (np.inf, np.empty(0), 0.0)
    for _ in range(STEPS):
        tried = []
        for one in np.eye(len(counts)):
            weights = (counts + one) / (counts.sum() + 1)
            shift = best_factor(gap := members @ weights - target)
            tried.append((error_of(gap + shift), weights, shift))
        step = min(tried, key=itemgetter(0))
        counts = step[1] * (counts.sum() + 1)
        best = min(best, step, key=itemgetter(0))
    return best[1:]


def _members(learned: Table, target: np.ndarray, table: Table, seed: int) -> list[np.ndarray]:
    """What each source times a factor, and the correction, predict for ``table``."""
    scaled = [
        table.sources[:, k] + best_factor(learned.sources[:, k] - target)
        for k in range(learned.sources.shape[1])
    ]
    gain = _boosted(learned.features(), target - learned.middle, seed)(table.features())
    return [*scaled, table.middle + gain]


def _boosted(rows: np.ndarray, values: np.ndarray, seed: int) -> Learned:
    """Boosted trees that are fitted to (n,) values of (n, features)."""
    import xgboost  # late: only learning has it

    data = xgboost.QuantileDMatrix(rows, values, max_bin=BOOSTING["max_bin"], nthread=1)
    about = {**GENTLE, "base_score": float(np.median(values))}
    trees = [xgboost.train({**about, "seed": seed * SEEDS + k}, data, ROUNDS) for k in range(SEEDS)]

    def predicted(features: np.ndarray) -> np.ndarray:
        if not len(features):  # no networks are kept for the test; XGBoost warns of that
            return np.zeros(0)
        matrix = xgboost.DMatrix(features, nthread=1)
        return np.mean([booster.predict(matrix) for booster in trees], axis=0, dtype=np.float64)

    return predicted
