"""What many timings of the same configurations say: one label each, and how far it can be trusted.

A busy neighbour makes a run slower and never faster, so the label must come from the fast end of
the rounds. The very fastest is an extreme: on a busy host it depends on who hit the one calm moment
or the one burst of the clock, and so, less, does any one quantile. The mean of the faster half of
the rounds agrees best with a second measurement of the same programs, with four rounds as with
thirty-two, on a calm machine as on a busy one (measured by ``tests/bench/labels.py``:
`lib/collect/xla/README.md`).
"""

from __future__ import annotations

import numpy as np

from lib.ranking.metrics import kendall_tau


def label(rounds: np.ndarray) -> np.ndarray:
    """One runtime a configuration: the mean of the faster half of its rounds.

    Of an odd number of rounds, the middle one is not in it; of one round, it is that.

    Args:
        rounds: (c, r) integer nanoseconds, 0 where unused, such as where others have more; at
            least one of each configuration is used.

    Returns:
        (c,) int64 nanoseconds, rounded down.
    """
    half = np.maximum((rounds > 0).sum(1) // 2, 1)
    ordered = np.sort(np.where(rounds > 0, rounds, np.iinfo(np.int64).max), axis=1)
    faster = np.arange(rounds.shape[1]) < half[:, None]
    return np.where(faster, ordered, 0).sum(1) // half


def ceiling(rounds: np.ndarray) -> float:
    """Kendall's tau-b between the labels of the even and of the odd rounds of (c, r).

    No predictor can be expected to agree with noisy labels better than the labels agree with
    themselves. Each half has half the rounds, so labels from all of them are a little better.
    """
    return kendall_tau(label(rounds[:, ::2]), label(rounds[:, 1::2]))


REPEATED = 8  # configurations that were measured twice, at least, to say how far labels agree


def noise_of(repeats: np.ndarray) -> float:
    """The relative standard deviation of a measurement, from (r, 2) runtimes of the same; 0 if
    nothing was measured twice."""
    if not len(repeats):
        return 0.0
    gaps = np.log(repeats[:, 0] / repeats[:, 1])
    return float(np.sqrt(np.square(gaps).mean() / 2))


def repeated_ceiling(repeats: np.ndarray) -> float | None:
    """Kendall's tau-b between two measurements, (r, 2), of the same configurations; ``None`` if
    there are fewer than ``REPEATED``."""
    return kendall_tau(*repeats.T) if len(repeats) >= REPEATED else None
