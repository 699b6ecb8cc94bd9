"""The learning rate over a run, and how many samples a step takes."""

from __future__ import annotations

import dataclasses
import math

from lib.settings import Settings
from lib.settings.models import AUTO
from lib.train.processes import Processes

# Of a training whose passes nobody has chosen: docs/explanation/what-helped.md.
STEPS, MOST_PASSES = 4000, 20
CYCLES, LOWEST, HIGHEST = 4, 0.1, 10.0  # of the cyclic schedule; times the rate that is set


def passes_of(settings: Settings, steps: int) -> float:
    """How often training passes over its graphs, if that takes so many steps each time.

    Where the settings leave it open, of many graphs fewer passes do, and a fold takes as long.
    """
    if settings.epochs == AUTO:
        return max(1, min(MOST_PASSES, round(STEPS / steps)))
    return settings.epochs


def learning_rate(
    step: int, steps: int, peak: float, warmup: float, schedule: str = "cosine"
) -> float:
    """Of a step from 0 to ``steps`` - 1: linear warm-up for a share of them, then what the schedule
    has, a name of :data:`AFTER_RISE`."""
    rising = max(1, round(warmup * steps))
    if step < rising:
        return peak * (step + 1) / rising
    return peak * AFTER_RISE[schedule]((step - rising) / max(1, steps - rising))


def cosine(done: float) -> float:
    """Half a wave down to zero (TGraph paper, section 2.4.2)."""
    return 0.5 * (1 + math.cos(math.pi * done))


def cyclic(done: float) -> float:
    """Triangles from a tenth of the rate to ten times that and back.

    The tuned schedule of CDMPP (appendix B) is PyTorch's ``CyclicLR``. How deep it goes the paper
    does not say, but its code does; a cycle takes 4,000 steps there, and a fourth of the run here.
    """
    risen = 1 - abs(2 * (done * CYCLES % 1) - 1)
    return LOWEST + (HIGHEST - LOWEST) * risen


# Of the share of the steps after the warm-up that are done, 0 to 1: times the rate that is set.
AFTER_RISE = {function.__name__: function for function in (cosine, cyclic)}


def peak_rate(rate: float, accumulate: int) -> float:
    """The peak for steps that average ``accumulate`` samples' gradients, from that for one sample.

    It grows with the square root of their number, as the noise of the mean shrinks with it: the
    rule for Adam (Malladi et al. 2022, arXiv:2205.10287).
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
