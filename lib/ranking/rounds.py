"""What many timings of the same configurations say: one label each, and how far it can be trusted.

A busy neighbour makes a run slower and never faster, so the label must come from the fast end of
the rounds. The very fastest is an extreme: on a busy host it depends on who hit the one calm moment
or the one burst of the clock, and the tenth percentile agrees better with a second measurement of
the same programs, in another process. On a calm one the two are alike (measured:
`lib/collect/xla/README.md`). Few rounds have no tenth percentile but their minimum.
"""

from __future__ import annotations

import numpy as np

from lib.ranking.metrics import kendall_tau

LOW = 0.1  # the quantile of many rounds that is their label
MANY = 12  # rounds; of fewer, it is the minimum


def label(rounds: np.ndarray) -> np.ndarray:
    """One runtime a configuration: the minimum of few rounds, the tenth percentile of many.

    Args:
        rounds: (c, r) integer nanoseconds, 0 where unused, such as where others have more.

    Returns:
        (c,) int64 nanoseconds.
    """
    return _low(rounds, _many(rounds))


def ceiling(rounds: np.ndarray) -> float:
    """Kendall's tau-b between the labels of the even and of the odd rounds of (c, r).

    No predictor can be expected to agree with noisy labels better than the labels agree with
    themselves. Each half has half the rounds, so labels from all of them are a little better.
    """
    many = _many(rounds)
    return kendall_tau(_low(rounds[:, ::2], many), _low(rounds[:, 1::2], many))


def _many(rounds: np.ndarray) -> bool:
    """Whether every configuration has enough rounds for more than their minimum."""
    return bool(((rounds > 0).sum(1) >= MANY).all())


def _low(rounds: np.ndarray, many: bool) -> np.ndarray:
    """The row-wise minimum, or ``LOW`` quantile, of the used entries, (c,) int64."""
    used = np.where(rounds > 0, rounds, np.nan)
    return np.nanquantile(used, LOW if many else 0.0, axis=1).astype(np.int64)
