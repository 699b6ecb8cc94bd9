"""How well latencies of unseen tensor programs are predicted, by the models and by rivals.

    .venv/bin/python -m tests.bench.programs [--data ROOT] [--seeds 3] [--variants NAME ...]
    .venv/bin/python -m tests.bench.programs --curves

Every variant learns from the same programs, is given the same ones for validation, and predicts the
same test: with ``networks``, six whole networks with all their tasks; with ``random``, a tenth of
the other programs. One training, no blend of folds. Another seed deals other folds, and draws other
weights. With
``--curves`` CDMPP+ learns from shares of the training programs, and of their networks. CDMPP's own
ablations (``ABLATIONS`` in ``rivals.py``) run where ``--variants`` names them; ``--against cdmpp``
then compares with it.

What was measured is kept in ``programs.parquet`` beside this file, a line a (variant, split, seed,
task) and one for all pairs of a run (task ``all``); what is there is not run again. Move it away
when data or models have changed. ``--print`` runs nothing. Errors are standard errors over seeds;
differences are paired by task, means over seeds, with a permutation test over tasks.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Iterable
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import torch

from lib.cache.reader import Cache
from lib.files.artifacts import atomic_file
from lib.files.progress import Lines
from lib.files.terminal import table
from lib.preprocess.collection import RawFile, write_cache
from lib.programs.folds import Pairs, sides_of_fold
from lib.programs.inputs import (
    device_features,
    devices_of,
    load_programs,
    pair_predictions,
)
from lib.programs.metrics import (
    LATENCY_METRICS,
    Predicted,
    measure_groups,
    measure_task,
)
from lib.programs.settings import ProgramSettings
from lib.programs.task import networks_of
from lib.report.statistics import p_text, paired
from lib.settings.resolved import BUNDLED_PROGRAMS
from tests.bench.rivals import CURVES, MEASURABLE, VARIANTS, Case

SPLITS = ("networks", "random")
KEYS = [one.key for one in LATENCY_METRICS]
MEASURED = (*KEYS, "task_mean_mape", "noise_mape")
SCHEMA = {
    **dict.fromkeys(("variant", "split"), pl.String),
    "seed": pl.Int64,
    "task": pl.String,
    **dict.fromkeys((*MEASURED, "seconds"), pl.Float64),
}
ALL = "all"


def cache_of(root: Path, folder: Path) -> Cache:
    """The cache of a dataset."""
    files = [RawFile(root / "dataset.json", "train")]
    write_cache(folder / "cache", files, {"collection": "programs-cpu"}, kind="programs")
    return Cache(folder / "cache")


def case_of(cache: Cache, split: str, seed: int) -> tuple[Case, Pairs]:
    """What every variant learns from and predicts, and which programs the test has."""
    settings = ProgramSettings("programs-cpu", split=split, seed=seed)
    sides = sides_of_fold(cache, 0, settings)
    devices = device_features(devices_of(cache))
    parts = {side: load_programs(cache, chosen) for side, chosen in sides.items()}
    called = {name: networks_of(cache.rows[name]) for side in sides.values() for name in side}
    about = {"called": called, "seed": seed, "split": split}
    return Case(**parts, devices=devices, **about), sides["test"]


def measured(cache: Cache, test: Pairs, predicted: np.ndarray) -> list[dict[str, object]]:
    """A row a task, and one for all pairs."""
    rows, every, first = [], [], 0
    for name, own in test.items():
        task = cache.graph(name).restricted(own)
        distinct = task.used
        part, first = predicted[first : first + len(distinct)], first + len(distinct)
        seconds = np.exp(pair_predictions(task, distinct, part))
        rows.append({"task": name, **measure_task(seconds, task.seconds, task)})
        every.append(Predicted(task, seconds))
    names = [one["name"] for one in cache.manifest["devices"]]
    whole = dict(measure_groups(every, names)["all"]["all"])
    rows.append({"task": ALL, **{key: whole[key] for key in MEASURED if key in whole}})
    return rows


def run(cache: Cache, case: Case, test: Pairs, variant: str) -> pl.DataFrame:
    """Train and measure one."""
    started = time.perf_counter()
    predicted = MEASURABLE[variant](case)
    about = {"variant": variant, "split": case.split, "seed": case.seed}
    about["seconds"] = time.perf_counter() - started
    rows = [{**about, **row} for row in measured(cache, test, predicted)]
    return pl.DataFrame(rows, schema=SCHEMA)


def accuracy_table(found: pl.DataFrame, split: str) -> str:
    """A row a variant: numbers over all pairs, means over seeds with their errors."""
    rows = []
    own = found.filter(split=split, task=ALL)
    for variant in MEASURABLE:
        runs = own.filter(variant=variant)
        if len(runs):
            cells = [_cell(runs[one.key].drop_nulls(), one.plain) for one in LATENCY_METRICS]
            rows.append([variant, *cells])
    tasks = found.filter(split=split, variant="cdmpp-plus").filter(pl.col("task") != ALL)
    for key, name in (("task_mean_mape", "the task's mean"), ("noise_mape", "noise floor")):
        value = tasks[key].drop_nulls().mean()
        # Of a random split, most tasks have one program in the test, which is its own mean.
        if value is not None and (split, key) != ("random", "task_mean_mape"):
            rows.append([name, f"{value:.1%}", *[""] * (len(LATENCY_METRICS) - 1)])
    heads = [split, *(one.heading for one in LATENCY_METRICS)]
    return table(rows, heads)


def _cell(values: pl.Series, text: Callable[[float | None], str]) -> str:
    if len(values) < 2:
        return text(values.mean())
    return f"{text(values.mean())} ± {text(values.std() / len(values) ** 0.5)}"


def differences(found: pl.DataFrame, split: str, against: str) -> str:
    """Each variant's MAPE of a task less that of one, paired by task."""
    means = found.filter(split=split).filter(pl.col("task") != ALL)
    means = means.group_by("variant", "task").agg(pl.col("mape").mean()).sort("task")
    base, rows = means.filter(variant=against), []
    for variant in [one for one in MEASURABLE if one != against and one not in CURVES]:
        both = base.join(means.filter(variant=variant), on="task")
        if len(both):
            test = paired(both["mape"].to_list(), both["mape_right"].to_list(), False)
            gap = f"{test.difference.value:+.1%} ± {test.difference.error:.1%}"
            rows.append([variant, gap, p_text(test.permutation), f"{test.losses} of {len(both)}"])
    return table(rows, [f"{split}, less {against}", "MAPE of a task", "permutation", "worse on"])


def main() -> None:
    """Run what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", type=Path, default=BUNDLED_PROGRAMS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--splits", nargs="+", default=list(SPLITS), choices=SPLITS)
    named_one = {"choices": [*MEASURABLE], "metavar": "NAME"}
    parser.add_argument("--variants", nargs="+", default=[*VARIANTS], **named_one)
    parser.add_argument("--against", default="cdmpp-plus", **named_one)
    parser.add_argument("--curves", action="store_true", help="learn from less, and nothing else")
    parser.add_argument("--results", type=Path, default=Path(__file__).with_suffix(".parquet"))
    parser.add_argument("--print", action="store_true", help="print what is there, run nothing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    if not args.print:
        with tempfile.TemporaryDirectory() as folder:
            cache = cache_of(args.data, Path(folder))
            variants = [*CURVES] if args.curves else args.variants
            wanted = product(range(args.seeds), args.splits, variants)
            run_missing(cache, wanted, args.results)
    for split in args.splits:
        found = results(args.results)
        print(f"\n{accuracy_table(found, split)}\n\n{differences(found, split, args.against)}")


def results(path: Path) -> pl.DataFrame:
    """What was measured so far."""
    return pl.read_parquet(path) if path.exists() else pl.DataFrame(schema=SCHEMA)


def run_missing(cache: Cache, wanted: Iterable[tuple[int, str, str]], path: Path) -> None:
    """Run what has no result yet; several processes may share the file of results."""
    done = set(results(path).select("seed", "split", "variant").iter_rows())
    case = None
    missing = [one for one in wanted if one not in done]
    for seed, split, variant in Lines("programs", len(missing), "run").over(missing):
        if case is None or (case.seed, case.split) != (seed, split):
            case, test = case_of(cache, split, seed)
        rows = run(cache, case, test, variant)
        with atomic_file(path) as temporary:
            pl.concat([results(path), rows]).write_parquet(temporary)
        print(f"{variant}, {split}, seed {seed}: {rows['mape'][-1]:.1%}", flush=True)


if __name__ == "__main__":
    main()
