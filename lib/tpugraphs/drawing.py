"""The two searches that choose which configurations are measured, as in TpuGraphs.

``random`` covers the whole range of runtimes: each configuration draws a density, and each slot
(a tensor of a site) is constrained with that probability to a uniformly drawn layout.
``default`` is a genetic algorithm on measured runtimes and crowds near the fastest; its whole
history is the data (TGraph paper, section 1.2).

A configuration is an int8 array (sites, 3, 6): minor-to-major, padded with -1.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

SLOTS = 3  # output, input, kernel
MAX_RANK = 6  # a configuration has six digits a tensor (FORMAT.md section 6)
DENSEST = 0.6  # share of a random configuration's slots that are constrained, at most
FARTHEST = 0.3  # share of a genetic child's slots that are mutated, at most
TOURNAMENT = 2  # entrants: a soft selection, so that the search keeps some breadth
Ranks = Sequence[tuple[int, int, int]]  # choices a site: rank of output, input, kernel, 0 if none


def unconstrained(ranks: Ranks) -> np.ndarray:
    """The compiler's own choice everywhere: all -1."""
    return np.full((len(ranks), SLOTS, MAX_RANK), -1, np.int8)


def random_configuration(ranks: Ranks, generator: np.random.Generator) -> np.ndarray:
    """Constrain each slot with a random density, to a uniform layout.

    The density is ``DENSEST`` times the square of a uniform draw, a mean of 1/5: each constraint
    may cost a copy, and a copy costs compile time, so most configurations are sparse, and their
    slow-downs can be distinguished.
    """
    density = DENSEST * generator.random() ** 2
    return mutated(unconstrained(ranks), ranks, density, 1.0, generator)


def mutated(
    configuration: np.ndarray,
    ranks: Ranks,
    rate: float,
    constrain: float,
    generator: np.random.Generator,
) -> np.ndarray:
    """Draw each slot anew with probability ``rate``: a layout with probability ``constrain``,
    else the compiler's choice."""
    child = configuration.copy()
    for site, choices in enumerate(ranks):
        for slot, rank in enumerate(choices):
            if rank and generator.random() < rate:
                child[site, slot] = -1
                if generator.random() < constrain:
                    child[site, slot, :rank] = generator.permutation(rank)
    return child


def crossover(a: np.ndarray, b: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Uniform crossover: each site's three layouts come from one of the parents."""
    return np.where(generator.random(len(a))[:, None, None] < 0.5, a, b)


def next_generation(
    population: Sequence[np.ndarray],
    runtimes: Sequence[float],
    size: int,
    ranks: Ranks,
    generator: np.random.Generator,
) -> list[np.ndarray]:
    """``size`` new configurations from all measured so far.

    Selection is by tournament of two over the whole history and crossover is uniform over sites.
    How many slots a child has mutated is drawn for each, from one to three tenths of them and
    evenly in the logarithm, so that the search looks both near and far: with two slots a child,
    most of its history differed by less than a clock resolves. Half the mutations go back to the
    compiler's choice. With nothing measured yet, children are mutants of the unconstrained
    configuration. Neither that one, which every search measures first, nor any already measured
    is proposed again.
    """
    seen = {c.tobytes() for c in (unconstrained(ranks), *population)}
    slots = max(1, sum(1 for choices in ranks for rank in choices if rank))
    children: list[np.ndarray] = []
    for _attempt in range(100 * size):
        if len(children) == size:
            break
        rate = max(1.0, FARTHEST * slots) ** generator.random() / slots
        if population:
            parents = [_tournament(population, runtimes, generator) for _ in range(2)]
            child = crossover(*parents, generator)
            child = mutated(child, ranks, rate, 0.5, generator)
        else:
            child = mutated(unconstrained(ranks), ranks, rate, 1.0, generator)
        if child.tobytes() not in seen:
            seen.add(child.tobytes())
            children.append(child)
    return children


def _tournament(
    population: Sequence[np.ndarray], runtimes: Sequence[float], generator: np.random.Generator
) -> np.ndarray:
    entrants = generator.integers(len(population), size=TOURNAMENT)
    return population[min(entrants, key=lambda k: runtimes[k])]
