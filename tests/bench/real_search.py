"""How many configurations of a real TPU program must be measured until a fast one is among them?

    .venv/bin/python -m tests.bench.real_search [--methods NAME ...] [--seeds 5]

Simulated on the three official graphs of :mod:`tests.bench.real_tpu`: what is measured is looked up
in the file. Each method chooses eight configurations at a time, knowing the runtimes of those that
were measured before, until one is within 0.1 % and 0.01 % of the fastest of the file, or 1,024
are measured. It prints medians over seeds; ``random`` is what is to be expected, without a draw.
Takes some minutes on a core.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import torch

from lib.cache.graph import CachedGraph
from lib.files.terminal import table
from lib.ranking.baseline import padded_work
from tests.bench.real_tpu import METHODS, OFFICIAL, part, read_graphs

AT_ONCE, MOST = 8, 1024
WITHIN = (1e-3, 1e-4)
FIRST = 16  # measured by arithmetic, before there is something to fit
MUTATED = 0.1  # share of a child's nodes
# (graph, measured rows, other rows, generator) -> scores of the others, lower first
Chooser = Callable[[CachedGraph, np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def genetic(
    graph: CachedGraph, measured: np.ndarray, others: np.ndarray, generator: np.random.Generator
) -> np.ndarray:
    """Those of the file that are nearest to children of fast ones; the first are drawn."""
    scores = generator.random(len(others))
    if not len(measured):
        return scores
    cells, runtimes = graph.cells[measured].astype(np.int64), graph.runtime[measured]
    pool = graph.cells[others].astype(np.int64)
    for _ in range(AT_ONCE):
        entrants = generator.integers(len(measured), size=(2, 2))
        one, other = (cells[pair[np.argmin(runtimes[pair])]] for pair in entrants)
        child = np.where(generator.random(len(one)) < 0.5, one, other)
        drawn = pool[generator.integers(len(pool))]
        child = np.where(generator.random(len(child)) < MUTATED, drawn, child)
        distance = (pool != child).sum(axis=1) + np.where(scores < 0, np.inf, 0)
        scores[np.argmin(distance)] = -1
    return scores


def fitted(method: str) -> Chooser:
    """By a method of the other bench that learns from what is measured; at first by arithmetic,
    which also tells apart what it calls equal."""

    def choose(
        graph: CachedGraph, measured: np.ndarray, others: np.ndarray, generator: np.random.Generator
    ) -> np.ndarray:
        scores = padded_work(part(graph, others))
        if len(measured) >= FIRST:
            own = METHODS[method]([part(graph, measured)], part(graph, others), 0, 0)
            order = np.lexsort((scores, own))
            scores = np.argsort(order).astype(float)
        return scores + 1e-9 * generator.random(len(scores))

    return choose


CHOOSERS: dict[str, Chooser] = {
    "genetic": genetic,
    "padded work + boosting": fitted("boosting"),
    "padded work + prices": fitted("prices"),
}


def until(graph: CachedGraph, choose: Chooser, seed: int) -> list[int]:
    """How many are measured until the fastest of them is within each of ``WITHIN``."""
    generator, best = np.random.default_rng(seed), graph.runtime.min()
    measured, most = np.zeros(0, np.int64), min(MOST, len(graph.runtime))
    while len(measured) < most:
        others = np.setdiff1d(np.arange(len(graph.runtime)), measured)
        order = np.argsort(choose(graph, measured, others, generator), kind="stable")
        measured = np.concatenate([measured, others[order[:AT_ONCE]]])
        if graph.runtime[measured].min() <= best * (1 + min(WITHIN)):
            break
    fastest = np.minimum.accumulate(graph.runtime[measured])
    return [1 + int((fastest > best * (1 + share)).sum()) for share in WITHIN]


def expected(graph: CachedGraph) -> list[float]:
    """How many are measured in random order, in the mean."""
    good = [(graph.runtime <= graph.runtime.min() * (1 + share)).sum() for share in WITHIN]
    return [(len(graph.runtime) + 1) / (count + 1) for count in good]


def main() -> None:
    """Simulate, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--methods", nargs="+", default=list(CHOOSERS), choices=list(CHOOSERS))
    parser.add_argument("--seeds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    if not OFFICIAL.exists():
        print(f"{OFFICIAL} is not there: nothing to simulate")
        return
    graphs = read_graphs()
    numbers = {"random": [expected(graph) for graph in graphs.values()]}
    for name in args.methods:
        runs = [
            [until(graph, CHOOSERS[name], seed) for seed in range(args.seeds)]
            for graph in graphs.values()
        ]
        numbers[name] = np.median(runs, axis=1).tolist()
    rows = [[name, *(f"{a:.0f}, {b:.0f}" for a, b in own)] for name, own in numbers.items()]
    print(table(rows, ["within 0.1 %, 0.01 %", *graphs]))


if __name__ == "__main__":
    main()
