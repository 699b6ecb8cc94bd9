"""Labels from many timings of the same configurations, and their noise.

Other processes make a run slower and never faster, so the label comes from the fast end of the
rounds. The fastest round is an extreme: on a busy host it depends on the one calm moment or the one
burst of the clock, and so, less, does any single quantile. The mean of the faster half of the
rounds agrees best with a second measurement of the same programs, with four rounds and with
thirty-two, on a calm machine and on a busy one.
"""

from __future__ import annotations

import numpy as np

from lib.ranking.metrics import kendall_tau


def label(rounds: np.ndarray) -> np.ndarray:
    """Return one runtime a configuration: the mean of the faster half of its rounds.

    The middle one of an odd number of rounds is left out; a single round is the label.

    Args:
        rounds: (c, r) integer nanoseconds, 0 for rounds that a configuration does not have; each
            has at least one.

    Returns:
        (c,) int64 nanoseconds, rounded down.
    """
    half = np.maximum((rounds > 0).sum(1) // 2, 1)
    ordered = np.sort(np.where(rounds > 0, rounds, np.iinfo(np.int64).max), axis=1)
    faster = np.arange(rounds.shape[1]) < half[:, None]
    return np.where(faster, ordered, 0).sum(1) // half


def ceiling(rounds: np.ndarray) -> float:
    """Return Kendall's tau-b between the labels of the even and of the odd rounds of (c, r).

    No predictor can be expected to agree better with noisy labels than the labels agree with
    themselves. Each half has half the rounds, so labels from all rounds are a little better.
    """
    return kendall_tau(label(rounds[:, ::2]), label(rounds[:, 1::2]))


REPEATED = 8  # fewer configurations that were measured twice say nothing on their agreement


def noise_of(repeats: np.ndarray) -> float:
    """Return the relative standard deviation of a measurement, from (r, 2) runtimes of the same
    configurations; 0 if none was measured twice."""
    if not len(repeats):
        return 0.0
    gaps = np.log(repeats[:, 0] / repeats[:, 1])
    return float(np.sqrt(np.square(gaps).mean() / 2))


def repeated_ceiling(repeats: np.ndarray) -> float | None:
    """Return Kendall's tau-b between two measurements, (r, 2), of the same configurations; ``None``
    for fewer than ``REPEATED``."""
    return kendall_tau(*repeats.T) if len(repeats) >= REPEATED else None
