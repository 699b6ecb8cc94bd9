"""The learning rate over a run, and how many samples a step takes."""

from __future__ import annotations

import dataclasses
import math

from lib.settings import Settings
from lib.train.processes import Processes


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


def peak_rate(rate: float, accumulate: int) -> float:
    """The peak for steps that average several samples' gradients.

    It grows with the square root of their number, as the noise of the mean shrinks with it: the
    rule for Adam (Malladi et al. 2022, arXiv:2205.10287). docs/cluster.md has what it was measured
    against.

    Args:
        rate: for steps of one sample.
        accumulate: samples of a step.
    """
    return rate * math.sqrt(accumulate)


def shared(settings: Settings, processes: Processes) -> Settings:
    """The settings of processes that train together: a step takes a sample of each, at least."""
    least = max(settings.accumulate, processes.count)
    if processes.first and least > 1:
        rate = peak_rate(settings.learning_rate, least)
        print(
            f"train: a step takes {least} samples, on {processes.count} processes; peak learning "
            f"rate {rate:.3g}: --learning-rate {settings.learning_rate:g} times their square root"
        )
    return dataclasses.replace(settings, accumulate=least)
