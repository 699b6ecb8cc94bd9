"""Which programs tell most about a processor, for few networks that have to be read."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from lib.cache.reader import Cache
from lib.programs.adapt.tasks import choose
from lib.programs.folds import all_pairs
from lib.programs.inputs import load_programs
from lib.programs.task import networks_of

NETWORKS = 12  # at most: reading one takes seconds
COMPARED = 8  # programs of each task, of which the clusters are


def telling(cache: Cache, count: int) -> tuple[list[str], list[str]]:
    """Tasks to measure, and the networks that have them.

    Many tasks, since what a predictor misses is much the same for all schedules of a task, and
    tasks unlike one another (:func:`lib.programs.adapt.sampling.kmeans_tasks`). So tasks are
    chosen among all, then the networks that call most of these, then tasks among those networks'.
    Tasks of the test are left out.

    Args:
        cache: of the programs that the predictor has learned from.
        count: how many tasks; fewer if the networks have not so many.
    """
    every = load_programs(cache, all_pairs(cache, cache.names("train", "valid")))
    place = np.arange(len(every)) - every.first[every.task]
    programs = every.some(place < COMPARED)
    called = {name: networks_of(cache.rows[name]) for name in programs.tasks}
    own = np.array([bool(called[name]) for name in programs.tasks])

    def chosen(among: np.ndarray) -> list[str]:
        most = min(count, int(among.sum()))
        numbers = choose(programs, among, {"method": "kmeans", "count": most, "seed": 0})
        return [programs.tasks[k] for k in numbers]

    networks = covering({name: called[name] for name in chosen(own)}, NETWORKS)
    tasks = chosen(np.array([bool({*called[name]} & {*networks}) for name in programs.tasks]))
    return tasks, networks


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
