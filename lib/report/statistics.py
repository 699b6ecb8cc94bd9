"""How sure a mean is, and whether two rankings differ: errors and paired tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
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
        low, high: bounds of the 95 % confidence interval of that mean (Student's t).
        permutation: p of the sign-flip permutation test on the mean, two-sided.
        wins, losses, ties: graphs where the second is better, worse, equal.
    """

    difference: Mean
    low: float
    high: float
    permutation: float
    wins: int
    losses: int
    ties: int

    @property
    def sure(self) -> bool:
        """Whether the permutation test tells the two apart at the 5 % level."""
        return self.permutation < 1 - CONFIDENCE


def mean(values: Sequence[float]) -> Mean:
    """Mean and standard error; NaN of nothing."""
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
        higher_is_better: what a win is.

    Raises:
        ValueError: for unequal lengths or none.
    """
    from scipy import stats  # late: it takes a second, which `make status` does not have

    a, b = np.asarray(first, float), np.asarray(second, float)
    if a.shape != b.shape or not len(a):
        raise ValueError(f"{len(a)} and {len(b)} values: expected equally many, at least 1")
    differences = b - a
    differences[np.isclose(b, a, rtol=0, atol=1e-12)] = 0.0
    difference = mean(differences)
    half = difference.error * stats.t.ppf((1 + CONFIDENCE) / 2, max(1, len(a) - 1))
    gains = differences if higher_is_better else -differences
    return Paired(
        difference=difference,
        low=difference.value - half,
        high=difference.value + half,
        permutation=sign_flip_test(differences),
        wins=int((gains > 0).sum()),
        losses=int((gains < 0).sum()),
        ties=int((gains == 0).sum()),
    )


def sign_flip_test(differences: np.ndarray) -> float:
    """Two-sided p of the mean of paired differences, were each as likely of either sign.

    Of all sign flips of those that are not zero, or of :data:`RESAMPLES` random flips where there
    are more; deterministic.
    """
    from scipy import stats  # late: it takes a second, which `make status` does not have

    nonzero = differences[differences != 0]
    if len(nonzero) < 2:
        return 1.0
    return float(
        stats.permutation_test(
            (nonzero,),
            np.mean,
            permutation_type="samples",
            n_resamples=RESAMPLES,
            batch=CHUNK,
            rng=0,
        ).pvalue
    )


def p_text(p: float) -> str:
    """``p = 0.03``, ``p < 0.001``."""
    if p < 0.001:
        return "p\N{NO-BREAK SPACE}<\N{NO-BREAK SPACE}0.001"
    return f"p = {p:.{3 if p < 0.1 else 2}f}".replace(" ", "\N{NO-BREAK SPACE}")
