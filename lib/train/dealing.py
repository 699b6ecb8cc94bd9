"""Which samples each step of an epoch trains on, and which process takes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from lib.train.fold import Fold, Sample
from lib.train.processes import Processes


@dataclass(frozen=True)
class Dealt:
    """What a step trains on.

    Attributes:
        samples: this process's, each taken when the one before is done with.
        count: how many all processes have.
    """

    samples: Iterable[Sample]
    count: int = 1


def deal(data: Fold[Any, Any], fold: int, epoch: int, processes: Processes) -> Iterator[Dealt]:
    """The steps of an epoch, all drawn from (seed, fold, epoch).

    Where steps take several samples, each is drawn from a generator of its own, torch's as well,
    so that it is the same whichever process it is dealt to.
    """
    settings = data.settings
    seeds = [settings.seed, fold, epoch]
    generator = np.random.default_rng(seeds)
    seed_torch(generator)
    if settings.accumulate == 1:
        for sample in data.samples(generator):
            yield Dealt([sample])
        return
    groups = data.groups(generator)
    for start in range(0, len(groups), settings.accumulate):
        step = groups[start : start + settings.accumulate]
        numbered = list(enumerate(step, start + 1))  # to numpy, 0 would be no part of a seed
        yield Dealt(_own(data, seeds, numbered, processes), len(step))


def _own(
    data: Fold[Any, Any],
    seeds: list[int],
    numbered: Sequence[tuple[int, Any]],
    processes: Processes,
) -> Iterator[Sample]:
    """This process's samples of a step, of which each group has its number in the epoch."""
    for place in processes.places(len(numbered)):
        if place >= len(numbered):
            data.beside.idle()
            continue
        number, group = numbered[place]
        own = np.random.default_rng([*seeds, number])
        seed_torch(own)
        yield from data.take(group, own)


def seed_torch(generator: np.random.Generator) -> None:
    """Let torch's generators, of the CPU and of every GPU, go on from an epoch's own.

    A child of its generator, which draws nothing from it, and which is another one than that of
    the weights: to numpy, the seeds (seed, fold) and (seed, fold, 0) are the same.
    """
    (child,) = generator.spawn(1)
    torch.manual_seed(int(child.integers(1 << 63)))
