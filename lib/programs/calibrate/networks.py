"""Which networks' programs tell most about a processor."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from lib.cache.reader import Cache
from lib.programs.adapt.tasks import choose
from lib.programs.folds import all_pairs
from lib.programs.inputs import load_programs
from lib.programs.task import networks_of

TASKS = 64  # unlike one another, that the networks are to have
COMPARED = 8  # programs of each task, of which the clusters are


def telling(cache: Cache, count: int) -> list[str]:
    """Networks to measure programs of, sorted.

    Many unlike tasks tell more than many schedules of few: what a predictor misses is much the same
    for all schedules of a task. So tasks that are unlike one another are chosen
    (:func:`lib.programs.adapt.sampling.kmeans_tasks`), then the networks that call most of them.
    Those of the test are left out.

    Args:
        cache: of the programs that the predictor has learned from.
        count: of networks, at most; TVM takes seconds to read one.
    """
    names = [name for name in cache.names("train", "valid") if networks_of(cache.rows[name])]
    every = load_programs(cache, all_pairs(cache, names))
    place = np.arange(len(every)) - every.first[every.task]
    programs = every.some(place < COMPARED)
    choice = {"method": "kmeans", "count": min(TASKS, len(programs.tasks)), "seed": 0}
    chosen = choose(programs, np.ones(len(programs.tasks), bool), choice)
    tasks = [programs.tasks[k] for k in chosen]
    return covering({name: networks_of(cache.rows[name]) for name in tasks}, count)


def covering(called: Mapping[str, Collection[str]], most: int) -> list[str]:
    """At most so many networks, sorted, that call many of some tasks; picked by most new ones."""
    left = {task: {*networks} for task, networks in called.items()}
    picked: list[str] = []
    while left and len(picked) < most:
        names = sorted(set().union(*left.values()))
        best = max(names, key=lambda name: sum(name in networks for networks in left.values()))
        picked.append(best)
        left = {task: networks for task, networks in left.items() if best not in networks}
    return sorted(picked)
