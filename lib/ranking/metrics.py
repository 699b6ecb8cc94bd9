"""Metrics of a ranking: Kendall's tau, top-k slowdown, the tile score.

``scores`` are always predictions, lower for faster, ``runtimes`` are measured, and both are
one-dimensional arrays over the configurations of one graph. The table of metrics at the end holds
the name, the format and the function of each.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

GLUE = "\N{NO-BREAK SPACE}"  # between a number and what belongs to it
TOPS = (1, 5, 10)  # values of k whose slowdowns are shown
TILE_TOP = 5  # best predicted configurations of a tile kernel that count


@dataclass(frozen=True)
class Metric:
    """One number of a graph: its function, and its names and format.

    Attributes:
        key: its name in ``metrics.json`` and, after ``validation_``, in a history.
        name: its name on pages.
        heading: a short name for a column of plain text.
        compute: its function of (scores, runtimes); ``None`` if it does not depend on scores, like
            a baseline, or needs more, like :func:`gains`.
        higher_is_better: whether a larger value is better.
        decimals: digits after the point; of a percentage, if ``percent``.
        percent: whether it is a share, shown with a percent sign.
        logarithm: whether it is the natural logarithm of a ratio, shown as ratio minus 1.
        least: the lower bound, where an axis begins; ``None`` without a bound.
        explained: one sentence that defines it.
    """

    key: str
    name: str
    heading: str
    compute: Callable[[np.ndarray, np.ndarray], float] | None
    higher_is_better: bool = True
    decimals: int = 3
    percent: bool = False
    logarithm: bool = False
    least: float | None = None
    explained: str = ""

    def text(self, value: float | None, signed: bool = False) -> str:
        """Return a value as text for a page; a dash for none."""
        if value is None or value != value:
            return "–"
        value = np.expm1(value) if self.logarithm else value
        scaled = value * 100 if self.percent else value
        sign, unit = "+" if signed else "", f"{GLUE}%" if self.percent else ""
        shown = f"{scaled:{sign}z.{self.decimals}f}{unit}"  # z: zero has no minus
        return shown.replace("-", "−")

    def plain(self, value: float | None) -> str:
        """Return a value as plain text; a hyphen for none."""
        if value is None:
            return "-"
        form = f"z.{self.decimals}{'%' if self.percent else 'f'}"
        return f"{np.expm1(value) if self.logarithm else value:{form}}"


def kendall_tau(scores: np.ndarray, runtimes: np.ndarray) -> float:
    """Return Kendall's tau-b, in [-1, 1]; 1 is a perfect ranking. O(n log n).

    It equals TGraph's equation 9 if nothing is tied; with ties it is the score of Kaggle
    (``scipy.stats.kendalltau``). If either side is constant, or there are fewer than two
    configurations, no pair is ordered and tau is 0.

    Raises:
        ValueError: for unequal lengths or values that are not finite.
    """
    from scipy import stats  # imported late: it takes a second

    scores, runtimes = _checked(scores, runtimes)
    if len(scores) < 2:
        return 0.0
    tau = float(stats.kendalltau(scores, runtimes).statistic)
    return 0.0 if np.isnan(tau) else tau


def top_k_slowdown(scores: np.ndarray, runtimes: np.ndarray, k: int) -> float:
    """Return how much slower the best of the k predicted fastest is than the true fastest.

    0 is perfect. Ties in the scores are broken by position. Runtimes must be positive.
    """
    return _best_of_top(scores, runtimes, k) - 1.0


def tile_score(scores: np.ndarray, runtimes: np.ndarray, k: int = TILE_TOP) -> float:
    """Return M_tile of TGraph's equation 10: 2 - (best of the top k) / (best of all)."""
    return 2.0 - _best_of_top(scores, runtimes, k)


def random_best(runtimes: np.ndarray, k: int) -> float:
    """Return the expected best runtime of ``k`` configurations drawn at random, over the best.

    The i-th fastest of n is the best of a draw with probability C(n - i - 1, k - 1) / C(n, k).
    """
    ordered = np.sort(runtimes)
    count, k = len(ordered), min(k, len(ordered))
    place = np.arange(1, count - k + 1)
    ratios = np.concatenate([[k / count], (count - k - place + 1) / (count - place)])
    return float(np.cumprod(ratios) @ ordered[: count - k + 1] / ordered[0])


def tile_metrics(scores: np.ndarray, runtimes: np.ndarray) -> dict[str, float]:
    """Return every tile metric of one kernel, by key."""
    return {m.key: m.compute(scores, runtimes) for m in TILE_METRICS}  # type: ignore[misc]


def ranking_metrics(scores: np.ndarray, runtimes: np.ndarray) -> dict[str, float]:
    """Return every layout metric of one graph, by key."""
    return {m.key: m.compute(scores, runtimes) for m in LAYOUT_METRICS}  # type: ignore[misc]


def pick_of(scores: np.ndarray, own: int | None) -> int:
    """Return the configuration predicted fastest; of several, the compiler's ``own``, which needs
    no change, or else the first."""
    return own if own is not None and scores[own] == scores.min() else int(np.argmin(scores))


def gains(scores: np.ndarray, runtimes: np.ndarray, default: int) -> dict[str, float]:
    """Return every number of :data:`GAINS` of one graph, by key.

    Args:
        scores, runtimes: predicted and measured.
        default: the configuration that the compiler takes by itself.
    """
    scores, runtimes = _checked(scores, runtimes)
    pick = pick_of(scores, default)
    speedup, best = (float(np.log(runtimes[default] / t)) for t in (runtimes[pick], runtimes.min()))
    return {SPEEDUP.key: speedup, BEST_SPEEDUP.key: best}


def mean_metrics(graphs: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """Return the mean of each metric over the graphs that have it, with equal weights."""
    keys = dict.fromkeys(key for metrics in graphs for key in metrics)
    return {key: float(np.mean([graph[key] for graph in graphs if key in graph])) for key in keys}


def _best_of_top(scores: np.ndarray, runtimes: np.ndarray, k: int) -> float:
    """Return the best runtime of the k predicted fastest over the best of all."""
    scores, runtimes = _checked(scores, runtimes)
    if not len(scores) or k < 1 or runtimes.min() <= 0:
        raise ValueError("needs at least one configuration, k >= 1 and positive runtimes")
    top = np.argsort(scores, kind="stable")[:k]
    return float(runtimes[top].min() / runtimes.min())


def _checked(scores: np.ndarray, runtimes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return both as arrays, or raise if they have unequal lengths or are not finite."""
    scores, runtimes = np.asarray(scores), np.asarray(runtimes)
    if scores.shape != runtimes.shape or scores.ndim != 1:
        raise ValueError(f"shapes {scores.shape} and {runtimes.shape}: expected two equal lengths")
    if not (np.isfinite(scores).all() and np.isfinite(runtimes).all()):
        raise ValueError("scores and runtimes must be finite")
    return scores, runtimes


def _slowdown(k: int) -> Metric:
    """Return the metric of the top-k slowdown."""
    of = "the predicted fastest" if k == 1 else f"the best of the {k} predicted fastest"
    return Metric(
        key=f"top_{k}_slowdown",
        name=f"top-{k} slowdown",
        heading=f"top-{k}",
        compute=partial(top_k_slowdown, k=k),
        higher_is_better=False,
        decimals=1,
        percent=True,
        least=0.0,
        explained=f"how much slower {of} is than the fastest of all; 0 is perfect",
    )


TAU = Metric(
    key="tau",
    name="Kendall's τ",
    heading="tau",
    compute=kendall_tau,
    least=-1.0,
    explained="agreement of two orders: 1 the same, 0 chance, −1 reversed",
)
TILE_SCORE = Metric(
    key="tile_score",
    name="M_tile",
    heading="M_tile",
    compute=tile_score,
    explained="2 − (best of the five predicted fastest) / (fastest of all): 1 is perfect",
)
SLOWDOWNS = tuple(map(_slowdown, TOPS))
# The metrics of a ranking, by kind of collection; the first is the main one.
LAYOUT_METRICS = (TAU, *SLOWDOWNS)
TILE_METRICS = (TILE_SCORE, TAU, *SLOWDOWNS)
SPEEDUP = Metric(
    key="log_speedup",
    name="speed-up of the pick",
    heading="speed-up",
    compute=None,
    decimals=1,
    percent=True,
    logarithm=True,
    explained=(
        "how much faster the predicted fastest is than the compiler's own choice, as a geometric "
        "mean; over graphs of which that was measured"
    ),
)
BEST_SPEEDUP = replace(
    SPEEDUP,
    key="best_log_speedup",
    name="speed-up of the fastest",
    heading="possible",
    explained="the same of the fastest of all, which no pick can beat",
)
# Gains over the compiler's own configuration, for graphs that have it.
GAINS = (SPEEDUP, BEST_SPEEDUP)
