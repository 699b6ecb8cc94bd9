"""The learning rate over a run."""

from __future__ import annotations

import math


def learning_rate(step: int, steps: int, peak: float, warmup: float) -> float:
    """Linear warm-up, then one half-wave of a cosine down to zero (TGraph paper, section 2.4.2).

    Args:
        step: from 0 to ``steps`` - 1.
        steps: of the whole run.
        peak: the largest learning rate.
        warmup: share of the steps that warm up.
    """
    rising = max(1, round(warmup * steps))
    if step < rising:
        return peak * (step + 1) / rising
    return peak * 0.5 * (1 + math.cos(math.pi * (step - rising) / max(1, steps - rising)))
