"""Choice of the tasks that are measured on a processor: large ones that are unlike one another."""

from __future__ import annotations

import warnings

import numpy as np

from lib.programs.inputs import Programs
from lib.programs.pooled import pooled_rows

COMPARED = 8  # programs of each task, of which the clusters are


def tasks_to_measure(programs: Programs, count: int) -> list[str]:
    """Return names of tasks whose programs say most of networks on a processor, sorted.

    Many unlike tasks say more than many schedules of few: a predictor is off by much the same on
    all schedules of a task. And a network takes as long as its large tasks take. So tasks that are
    unlike one another are picked from the slowest, of which twice as many are looked at.

    Args:
        programs: that the predictor has learned from, with seconds on any devices.
        count: of tasks, at most.
    """
    fastest = fastest_of_tasks(programs, np.nanmin(programs.seconds, axis=1))
    slowest = np.argsort(-fastest, kind="stable")[: 2 * count]
    few = programs.some(np.isin(programs.task, slowest)).first_of_tasks(COMPARED)
    most = min(count, len(few.tasks))
    picked = kmeans_tasks(pooled_rows(few), few.first, most, seed=0)
    return sorted(few.tasks[k] for k in picked)


def fastest_of_tasks(programs: Programs, seconds: np.ndarray) -> np.ndarray:
    """Return (tasks,) of the least of (n,) seconds of each task's programs."""
    return np.minimum.reduceat(seconds, programs.first[:-1])


def kmeans_tasks(  # longer: one algorithm of the paper
    rows: np.ndarray, first: np.ndarray, count: int, seed: int
) -> np.ndarray:
    """Return a task for each cluster of programs, the largest cluster first: algorithm 1 of CDMPP.

    The algorithm leaves open what the features are and how they are scaled. Programs have
    different numbers of leaves, so that each is one row of pooled features; columns are brought to
    unit variance, and those that do not vary are left out. KMeans is scikit-learn's, begun once by
    k-means++. Of clusters of one size the one with the lower number comes first, and of tasks that
    are equally near the one that comes first. If programs have fewer distinct rows than there are
    clusters, some clusters are the same, and have other tasks.

    Args:
        rows: (n, features) of all programs, task by task.
        first: (tasks + 1,) where each task's programs begin; every task has one.
        count: how many tasks, at most as many as there are.
        seed: another seed draws other tasks.

    Returns:
        (count,) numbers of distinct tasks, in the order in which they were picked.
    """
    from scipy.spatial.distance import cdist
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    x = standardized(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        clusters = KMeans(count, n_init=1, random_state=seed).fit(x)
    sizes = np.bincount(clusters.labels_, minlength=count)
    centres = clusters.cluster_centers_[np.argsort(-sizes, kind="stable")].astype(np.float64)
    mean = np.add.reduceat(cdist(x, centres), first[:-1], 0) / np.diff(first)[:, None]
    picked, left = [], np.ones(len(first) - 1, bool)
    for distances in mean.T:  # the table of line 8, a row a cluster
        task = np.flatnonzero(left)[np.argmin(distances[left])]
        left[task] = False
        picked.append(task)
    return np.array(picked)


def standardized(rows: np.ndarray) -> np.ndarray:
    """Return (n, features) float32 of zero mean and unit variance; constant columns go.

    Where none does, there is one of zeros.
    """
    deviation = rows.std(0, dtype=np.float64)
    varying = deviation > 1e-6
    if not varying.any():
        return np.zeros((len(rows), 1), np.float32)
    columns = rows[:, varying]
    return ((columns - columns.mean(0, dtype=np.float64)) / deviation[varying]).astype(np.float32)
