"""The learning rate over a run, and how many passes a run has."""

from __future__ import annotations

import math
from typing import Any

from lib.models.common.settings import AUTO

# Of a training whose passes nobody has set: docs/explanation/what-helped.md.
STEPS, MOST_PASSES = 4000, 7
CYCLES, LOWEST, HIGHEST = 4, 0.1, 10.0  # of the cyclic schedule; times the rate that is set


def passes_of(settings: Any, steps: int) -> float:
    """Return the number of passes over the training graphs, of ``steps`` steps each.

    If the settings leave it open, fewer passes do for many graphs, and a fold takes as long.
    """
    if settings.epochs == AUTO:
        return max(1, min(MOST_PASSES, round(STEPS / steps)))
    return settings.epochs


def learning_rate(
    step: int, steps: int, peak: float, warmup: float, schedule: str = "cosine"
) -> float:
    """Return the rate of a step, 0 to ``steps`` - 1.

    Args:
        step, steps: which, of how many.
        peak: the highest rate.
        warmup: share of the steps over which it rises in a straight line.
        schedule: what follows, a name of :data:`SCHEDULES`.
    """
    rising = max(1, round(warmup * steps))
    if step < rising:
        return peak * (step + 1) / rising
    return peak * SCHEDULES[schedule]((step - rising) / max(1, steps - rising))


def cosine(done: float) -> float:
    """Return half a wave down to zero (TGraph paper, section 2.4.2)."""
    return 0.5 * (1 + math.cos(math.pi * done))


def cyclic(done: float) -> float:
    """Return triangles from a tenth of the rate to ten times that and back.

    The tuned schedule of CDMPP (appendix B) is PyTorch's ``CyclicLR``. How deep it goes the paper
    does not say, but its code does; a cycle takes 4,000 steps there, and a fourth of the run here.
    """
    risen = 1 - abs(2 * (done * CYCLES % 1) - 1)
    return LOWEST + (HIGHEST - LOWEST) * risen


# Factors on the peak, by the share of the steps after the warm-up that are done, 0 to 1.
SCHEDULES = {function.__name__: function for function in (cosine, cyclic)}
