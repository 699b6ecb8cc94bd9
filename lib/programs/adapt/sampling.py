"""Which tasks to measure on a new device."""

from __future__ import annotations

import warnings

import numpy as np

from lib.files.errors import UserError

METHODS = ("kmeans", "random")
ROWS = 4096  # whose distances to all centres are computed at a time


def choose_tasks(
    method: str, rows: np.ndarray, first: np.ndarray, count: int, seed: int
) -> np.ndarray:
    """(count,) numbers of distinct tasks, in the order in which they were chosen.

    Args:
        method: one of ``METHODS``.
        rows: (n, features) of all programs, task by task.
        first: (tasks + 1,) where each task's programs begin; every task has one.
        count: how many tasks.
        seed: another seed draws other tasks.

    Raises:
        UserError: if there are not so many tasks.
    """
    tasks = len(first) - 1
    if not 1 <= count <= tasks:
        raise UserError(f"--tasks {count}: must be from 1 to {tasks}, the tasks there are")
    if method == "random":
        return np.random.default_rng(seed).permutation(tasks)[:count]
    return kmeans_tasks(rows, first, count, seed)


def kmeans_tasks(rows: np.ndarray, first: np.ndarray, count: int, seed: int) -> np.ndarray:
    """Algorithm 1 of CDMPP: a task for each cluster of programs, the largest cluster first.

    The algorithm leaves open what the features are and how they are scaled. Programs have
    different numbers of leaves, so that each is one row of pooled features; columns are brought to
    unit variance, and those that do not vary are left out. KMeans is scikit-learn's, begun once by
    k-means++. Of clusters of one size the one with the lower number comes first, and of tasks that
    are equally near the one that comes first. If programs have fewer distinct rows than there are
    clusters, some clusters are the same, and have other tasks.

    Args: see :func:`choose_tasks`.
    """
    from sklearn.cluster import KMeans
    from sklearn.exceptions import ConvergenceWarning

    x = standardized(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        clusters = KMeans(count, n_init=1, random_state=seed).fit(x)
    sizes = np.bincount(clusters.labels_, minlength=count)
    order = np.argsort(-sizes, kind="stable")
    near = mean_distances(x, first, clusters.cluster_centers_[order])
    chosen, left = [], np.ones(len(first) - 1, bool)
    for distances in near:  # the table of line 8, a row a cluster
        task = np.flatnonzero(left)[np.argmin(distances[left])]
        left[task] = False
        chosen.append(task)
    return np.array(chosen)


def standardized(rows: np.ndarray) -> np.ndarray:
    """(n, features) float32 of zero mean and unit variance, without columns that do not vary.

    Where none does, there is one of zeros.
    """
    deviation = rows.std(0, dtype=np.float64)
    varying = deviation > 1e-6
    if not varying.any():
        return np.zeros((len(rows), 1), np.float32)
    columns = rows[:, varying]
    return ((columns - columns.mean(0, dtype=np.float64)) / deviation[varying]).astype(np.float32)


def mean_distances(x: np.ndarray, first: np.ndarray, centres: np.ndarray) -> np.ndarray:
    """(centres, tasks) mean Euclidean distance of each task's programs to each centre.

    Args:
        x: (n, features) of the programs, task by task.
        first: (tasks + 1,) where each task's begin.
        centres: (centres, features).
    """
    squares = np.square(centres, dtype=np.float64).sum(1)
    parts = []
    for start in range(0, len(x), ROWS):
        block = x[start : start + ROWS].astype(np.float64)
        product = block @ centres.T.astype(np.float64)
        parts.append(np.square(block).sum(1)[:, None] - 2 * product + squares)
    distances = np.sqrt(np.maximum(np.concatenate(parts), 0))  # (n, centres)
    return (np.add.reduceat(distances, first[:-1], 0) / np.diff(first)[:, None]).T
