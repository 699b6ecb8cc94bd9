"""Errors of means, and a paired test of two rankings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lib.ranking.metrics import GLUE, Metric

RESAMPLES = 9999  # sign flips at most
CHUNK = 500  # of them at a time: there may be thousands of graphs


@dataclass(frozen=True)
class Mean:
    """A mean over graphs (or folds) and its standard error; the error of one value is NaN."""

    value: float
    error: float
    count: int


@dataclass(frozen=True)
class Paired:
    """Two values for each graph, compared.

    Attributes:
        difference: mean of second minus first, with its standard error.
        permutation: p of the two-sided test on the mean, if each difference were as likely of
            either sign: of all flips of those that are not zero, or of :data:`RESAMPLES` of them.
        wins, losses, ties: graphs where the second is better, worse, equal.
    """

    difference: Mean
    permutation: float
    wins: int
    losses: int
    ties: int

    @property
    def sure(self) -> bool:
        """Return whether the two differ by the permutation test at the 5 % level."""
        return self.permutation < 0.05


def mean(values: Sequence[float]) -> Mean:
    """Return mean and standard error; NaN of nothing."""
    array = np.asarray(values, float)
    if not len(array):
        return Mean(float("nan"), float("nan"), 0)
    error = array.std(ddof=1) / np.sqrt(len(array)) if len(array) > 1 else float("nan")
    return Mean(float(array.mean()), float(error), len(array))


def paired(
    first: Sequence[float], second: Sequence[float], higher_is_better: bool = True
) -> Paired:
    """Compare two values of each graph, in the same order of graphs.

    Args:
        first, second: equally many, at least one.
        higher_is_better: which of two values wins.

    Raises:
        ValueError: for unequal lengths or none.
    """
    from scipy import stats  # late: it takes a second, which `make status` does not have

    a, b = np.asarray(first, float), np.asarray(second, float)
    if a.shape != b.shape or not len(a):
        raise ValueError(f"{len(a)} and {len(b)} values: expected equally many, at least 1")
    differences = np.where(np.isclose(b, a, rtol=0, atol=1e-12), 0.0, b - a)
    difference, nonzero = mean(differences), differences[differences != 0]
    p = 1.0
    if len(nonzero) > 1:
        options = {"n_resamples": RESAMPLES, "batch": CHUNK, "rng": 0}
        test = stats.permutation_test((nonzero,), np.mean, permutation_type="samples", **options)
        p = float(test.pvalue)
    wins, losses = int((differences > 0).sum()), int((differences < 0).sum())
    if not higher_is_better:
        wins, losses = losses, wins
    return Paired(difference, p, wins, losses, len(a) - len(nonzero))


def p_text(p: float) -> str:
    """Return ``p = 0.03`` or ``p < 0.001``."""
    text = "p < 0.001" if p < 0.001 else f"p = {p:.{3 if p < 0.1 else 2}f}"
    return text.replace(" ", GLUE)


def with_error(metric: Metric, value: Mean) -> str:
    """Return a mean with its standard error, ``0.232 ± 0.061``; of one value without."""
    if value.error != value.error:
        return metric.text(value.value)
    bare = metric.text(value.value).removesuffix(f"{GLUE}%")
    return f"{bare}{GLUE}±{GLUE}{metric.text(value.error)}"


def in_words(compared: Paired, metric: Metric) -> str:
    """Return a mean difference, its error and how sure it is: ``+0.1 ± 0.0 (...; p = 0.03)``."""
    difference = compared.difference
    text = metric.text(difference.value, True)
    if difference.count > 1:
        sure = p_text(compared.permutation)
        text += f" ± {metric.text(difference.error)} (permutation test {sure})"
    return text
