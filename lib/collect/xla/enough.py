"""Number of rounds of a program: a least number, then until the clock agrees.

A noisy machine needs more of them than a quiet one, and a program whose layouts change little more
than another.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

from lib.ranking.rounds import ceiling

RUNS, KERNELS = "runs", "kernels"  # what a round is timed by: the whole program, or its kernels
ROUNDS = {RUNS: 24, KERNELS: 4}  # of a configuration, if nobody says
FEWEST = {RUNS: 4, KERNELS: 2}
AT_ONCE = 8  # rounds a turn on the core: a few seconds; then they are written, others have turns


class Limits(Protocol):
    """Bounds of the number of rounds, and the ceiling that is enough.

    Attributes:
        rounds: of every configuration, at least.
        most_rounds: of every configuration, while the ceiling is too low.
        ceiling: of both searches, in the mean; see :func:`lib.ranking.rounds.ceiling`.
    """

    rounds: int
    most_rounds: int
    ceiling: float


def missing_rounds(rounds: np.ndarray, search: np.ndarray, limits: Limits) -> int:
    """Return the number of rounds to add next, at most ``AT_ONCE``; 0 if there are enough.

    Args:
        rounds: (c, r) ns, 0 where unused.
        search: (c,) which search each configuration is of.
        limits: of a program.
    """
    done = int((rounds > 0).sum(1).min())
    if done < limits.rounds:
        return min(AT_ONCE, limits.rounds - done)
    if done >= limits.most_rounds or mean_ceiling(rounds, search) >= limits.ceiling:
        return 0
    return min(AT_ONCE, limits.most_rounds - done)


def mean_ceiling(rounds: np.ndarray, search: np.ndarray) -> float:
    """Return how far a program's labels agree with themselves, the mean of its searches."""
    return float(np.mean([ceiling(rounds[search == number]) for number in np.unique(search)]))
