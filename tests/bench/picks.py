"""How soon the best of a task's schedules is found, by whom says which are measured next.

    .venv/bin/python -m tests.bench.picks [--outputs outputs] [--seeds 3]

Wants the predictor of `make all COLLECTION=programs-cpu`. Nothing is measured: the 256 random
schedules that the dataset has of each search task, which no network has learned from, are all that
there is to choose from, and their latencies are looked up, eight at a time. So all that differs is
who chooses: chance, the predictor, the predictor corrected by what was looked up as `make search`
does it, and XGBoost that starts with eight at random and learns from what was looked up, as TVM's
own cost model does. The best so far over the best of all, geometric means over tasks, devices of
one thread and seeds, with standard errors over tasks.

The second table is what :data:`lib.programs.latency.error.OF_BLEND` sums up: measured over
predicted seconds of the program that a blend predicts to be fastest, over the same of single folds;
after a search the fastest as measured runs.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path

import numpy as np
import torch

from lib.cache.reader import Cache
from lib.cache.writer import CacheWriter
from lib.files.terminal import table
from lib.programs.adapt.case import pooled_rows
from lib.programs.adapt.transfer import BOOSTING
from lib.programs.folds import all_pairs
from lib.programs.inputs import device_features, devices_of, load_programs, predict
from lib.programs.latency.error import HOW
from lib.programs.latency.predict import load_predictor, predictor_settings
from lib.programs.preprocess import about, tasks_of
from lib.programs.search.scorer import FEWEST, fitted
from lib.settings.resolved import BUNDLED_PROGRAMS

ROUND = 8
BUDGETS = (1, 8, 16, 24, 32, 64, 128)
AGAINST, RIVAL_BUDGET = "XGBoost", 64
FEWEST_SCHEDULES = 128  # of a task that counts
DRAWN, DRAWS = (1, 8, 16), 20  # programs to choose from, and how often they are drawn


@dataclass(frozen=True, eq=False)
class Pool:
    """The distinct schedules of one task on one device.

    Attributes:
        task: its name.
        rows: (n, features), pooled.
        logs: (folds, n) predicted logarithms of seconds.
        measured: (n,) logarithms of seconds.
    """

    task: str
    rows: np.ndarray
    logs: np.ndarray
    measured: np.ndarray

    @property
    def predicted(self) -> np.ndarray:
        """(n,) logarithms, blended."""
        return self.logs.mean(0)


def pools_of(root: Path, outputs: Path, model: str | None) -> list[Pool]:
    """All search tasks on all devices of one thread."""
    _, chosen = predictor_settings("programs-cpu", root, model)
    ensemble, trained = load_predictor(outputs, chosen)
    devices = devices_of(trained)
    features = device_features(devices)
    found = []
    with tempfile.TemporaryDirectory() as name:
        cache = cache_of(root / "dataset.json", Path(name))
        names = [one["name"] for one in devices_of(cache)]
        for task in cache.names("search"):
            programs = load_programs(cache, all_pairs(cache, [task]))
            logs = [predict(one, programs, features, 4096) for one in ensemble.networks.values()]
            logs, rows = np.stack(logs), pooled_rows(programs)
            for k, device in enumerate(devices):
                if device["threads"] > 1 or device["name"] not in names:
                    continue
                seconds = programs.seconds[:, names.index(device["name"])]
                known = np.isfinite(seconds)
                if known.sum() >= FEWEST_SCHEDULES:
                    measured = np.log(seconds[known])
                    found.append(Pool(task, rows[known], logs[:, known, k], measured))
    return found


def cache_of(path: Path, folder: Path) -> Cache:
    """A cache of the search tasks alone."""
    with CacheWriter(folder, "programs") as writer:
        for task, sizes in tasks_of(path, ("search",)):
            writer.add(task, sizes)
        writer.finish({**about(path, ("search",)), "fingerprint": "search", "settings": {}})
    return Cache(folder)


def by_chance(pool: Pool, rng: np.random.Generator) -> np.ndarray:
    """Any order."""
    return rng.permutation(len(pool.measured))


def by_predictor(pool: Pool, rng: np.random.Generator) -> np.ndarray:
    """What is predicted to be fastest first."""
    return np.argsort(pool.predicted, kind="stable")


def by_corrected(pool: Pool, rng: np.random.Generator) -> np.ndarray:
    """The same, corrected after every round."""

    def scores(known: np.ndarray) -> np.ndarray:
        if len(known) < FEWEST:
            return pool.predicted
        missed = pool.measured[known] - pool.predicted[known]
        return pool.predicted + fitted(pool.rows[known], missed)(pool.rows)

    return in_rounds(pool, scores, [])


def by_xgboost(pool: Pool, rng: np.random.Generator) -> np.ndarray:
    """Eight at random, then what boosting on those that were looked up says."""
    import xgboost

    rules = {**BOOSTING, "max_depth": 6, "eta": 0.2, "seed": 0, "min_child_weight": 1}

    def scores(known: np.ndarray) -> np.ndarray:
        data = xgboost.DMatrix(pool.rows[known], pool.measured[known])
        return xgboost.train(rules, data, 60).predict(xgboost.DMatrix(pool.rows))

    return in_rounds(pool, scores, rng.permutation(len(pool.measured))[:ROUND].tolist())


def in_rounds(
    pool: Pool, scores: Callable[[np.ndarray], np.ndarray], first: list[int]
) -> np.ndarray:
    """The order in which schedules are looked up, the lowest scores of what is left next."""
    order = list(first)
    while len(order) < min(len(pool.measured), max(BUDGETS)):
        said = scores(np.array(order, np.int64)).copy()
        said[order] = np.inf
        left = min(ROUND, len(said) - len(order))
        order += np.argsort(said, kind="stable")[:left].tolist()
    return np.array(order)


CHOOSERS = {
    "chance": by_chance,
    AGAINST: by_xgboost,
    "predictor": by_predictor,
    "predictor, corrected": by_corrected,
}


DRAWING = ("chance", AGAINST)  # those that another seed changes


def curves(pools: list[Pool], seeds: int) -> dict[str, np.ndarray]:
    """Chooser -> (tasks, most budget) logarithm of best so far over best of all."""
    tasks = sorted({pool.task for pool in pools})
    found = {}
    for name, choose in CHOOSERS.items():
        sums = np.zeros((len(tasks), max(BUDGETS)))
        counts = np.zeros(len(tasks))
        for pool in pools:
            for seed in range(seeds if name in DRAWING else 1):
                order = choose(pool, np.random.default_rng(seed))[: max(BUDGETS)]
                best = np.minimum.accumulate(pool.measured[order]) - pool.measured.min()
                best = np.concatenate([best, np.full(max(BUDGETS) - len(best), best[-1])])
                sums[tasks.index(pool.task)] += best
                counts[tasks.index(pool.task)] += 1
        found[name] = sums / counts[:, None]
    return found


def report(found: dict[str, np.ndarray]) -> str:
    """A row a chooser, and how many measurements reach what the rival does with 64."""
    wanted = found[AGAINST][:, RIVAL_BUDGET - 1].mean()
    cells = []
    for name, gaps in found.items():
        means, errors = gaps.mean(0), gaps.std(0, ddof=1) / np.sqrt(len(gaps))
        said = [f"{np.exp(means[k - 1]):.3f} ± {errors[k - 1]:.3f}" for k in BUDGETS]
        reached = np.flatnonzero(means <= wanted)
        cells.append([name, *said, str(reached[0] + 1) if len(reached) else "more"])
    heads = ["best so far / best of all", *map(str, BUDGETS)]
    return table(cells, [*heads, f"reach what {AGAINST} does with {RIVAL_BUDGET}"])


def blends(pools: list[Pool]) -> str:
    """A row a number of programs that there are to choose from, and how they are chosen."""
    rng, gaps = np.random.default_rng(0), {}
    for pool in pools:
        folds = range(1, len(pool.logs) + 1)
        for count, _ in product(DRAWN, range(DRAWS)):
            drawn = rng.permutation(len(pool.measured))[:count]
            for n in folds:
                both = np.mean(
                    [
                        _missed(pool.logs[[*some]][:, drawn].mean(0), pool.measured[drawn])
                        for some in combinations(range(len(pool.logs)), n)
                    ],
                    0,
                )
                gaps.setdefault((count, n), {}).setdefault(pool.task, []).append(both)
    rows = []
    for count, (k, how) in product(DRAWN, enumerate(HOW)):
        means = [np.array([np.mean(one, 0)[k] for one in gaps[count, n].values()]) for n in folds]
        over = [own - means[0] for own in means[1:]]
        errors = [own.std(ddof=1) / np.sqrt(len(own)) for own in over]
        cells = [f"{np.exp(own.mean()):.3f} ± {e:.3f}" for own, e in zip(over, errors, strict=True)]
        rows.append([f"{count} {how}", *cells])
    return table(rows, ["times that of one fold", *(f"{n} folds" for n in folds[1:])])


def _missed(predicted: np.ndarray, measured: np.ndarray) -> tuple[float, float]:
    """Logarithms of measured over predicted: of what is predicted to be fastest, and after all are
    measured."""
    best = np.argmin(predicted)
    return measured[best] - predicted[best], measured.min() - predicted[best]


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=BUNDLED_PROGRAMS)
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    parser.add_argument("--model")
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    pools = pools_of(args.data, args.outputs, args.model)
    if not pools:
        raise SystemExit(f"{args.data}: no search task with {FEWEST_SCHEDULES} schedules")
    tasks = len({pool.task for pool in pools})
    print(f"{tasks} tasks, {len(pools)} of them on a device, {args.seeds} seeds\n")
    print(f"{report(curves(pools, args.seeds))}\n\n{blends(pools)}")


if __name__ == "__main__":
    main()
