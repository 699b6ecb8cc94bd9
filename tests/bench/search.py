"""Searches for fast schedules side by side: who says which programs are measured.

    .venv/bin/python -m tests.bench.search --core 1       # what is missing, then the tables
    .venv/bin/python -m tests.bench.search --print [--plot docs/results/searches.svg]

Wants the predictor of `make all COLLECTION=programs-cpu`, TVM's environment with XGBoost (`make
search`; docs/tutorials/faster-network.md), and a core that nothing else uses: five minutes a search
of a network with 32 measurements a task. A way may have a larger ``--budget`` than others.

Every search is `python -m lib.programs.search`, from nothing, with one space of schedules,
population and round for all: chance, TVM's XGBoost, which learns from the first round on, the same
as TVM sets it, which waits for 100 measurements, the predictor as it is, and the predictor
corrected by what is measured. (TVM's perceptron fails on a single task: it holds out a fifth of the
tasks.) The tasks are those of networks of the test, from which nothing has learned. How long the
networks take then: :mod:`tests.bench.deployed`.

What was measured is kept in ``search.parquet`` beside this file, a line a measurement, and is not
measured again. Tables: the fastest so far over the fastest that anybody found for that task on that
device, geometric means over tasks and seeds with standard errors over tasks; and seconds, the
median over tasks.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl

from lib.files.artifacts import atomic_file
from lib.files.progress import Lines
from lib.files.terminal import table
from lib.programs.latency.predictor import TVM
from lib.runs.code import ROOT
from lib.settings.resolved import BUNDLED_PROGRAMS

PATIENT = "XGBoost, as TVM sets it"
PATIENCE = """import sys; from lib.collect.tvm import search; del sys.argv[1:3]
search.TVM_MODELS["xgboost"] = "xgb", {"num_tuning_cores": 1, "num_warmup_samples": 100}
search.main()"""
RIVALS = {  # name -> flags of lib.programs.search
    "chance": ("--cost-model", "random"),
    "XGBoost": ("--cost-model", "xgboost"),
    PATIENT: ("--cost-model", "xgboost"),
    "predictor": ("--no-update",),
    "predictor, corrected": (),
}
BUDGETS = (1, 8, 16, 32, 64, 128)
AGAINST, AT = "XGBoost", (32, 64, 128)  # what is to be reached with fewer measurements
NETWORKS = ("vit.w128_s96.b1", "resnet50.w32_s64.b1")
SCHEMA = {
    **dict.fromkeys(("target", "task", "device", "by"), pl.String),
    "seed": pl.Int64,
    "calls": pl.Int64,
    "trial": pl.Int64,
    **dict.fromkeys(("seconds", "known_at", "unscheduled"), pl.Float64),
}
KEY = ("target", "device", "by", "seed")


def search(target: str, device: str, by: str, seed: int, args: argparse.Namespace) -> pl.DataFrame:
    """One search from nothing, a row a measurement."""
    with predictor_alone(args.outputs / args.predictor) as outputs:
        command = [sys.executable, "-m", "lib.programs.search", "--network", target]
        command += ["--device", device, "--budget", str(args.budget), "--seed", str(seed)]
        command += ["--core", str(args.core)]
        command += ["--outputs", str(outputs), "--data", str(args.data), *RIVALS[by]]
        if by == PATIENT:
            python = outputs.absolute() / "patient"
            python.write_text(f"#!/bin/sh\nexec {ROOT / TVM} -c '{PATIENCE}' \"$@\"\n")
            python.chmod(0o755)
            command += ["--tvm", str(python)]
        started = time.monotonic()
        done = subprocess.run(command, cwd=ROOT, stderr=subprocess.PIPE, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}: {done.stderr.strip().splitlines()[-1]}")
        print(f"{target}, {device}, {by}, seed {seed}: {time.monotonic() - started:.0f} s")
        (path,) = outputs.glob("*/search/*/search.json")
        found = json.loads(path.read_text())
    about = {"target": target, "device": device, "by": by, "seed": seed}
    rows = [
        {**about, "trial": k + 1, "seconds": seconds, "known_at": at}
        | {name: one[name] for name in ("task", "calls", "unscheduled")}
        for one in found["tasks"]
        for k, (seconds, at) in enumerate(zip(one["seconds"], one["known_at"], strict=True))
    ]
    return pl.DataFrame(rows, schema=SCHEMA)


@contextmanager
def predictor_alone(predictor: Path) -> Iterator[Path]:
    """A folder of outputs that has a predictor's folds, and no search."""
    with tempfile.TemporaryDirectory(prefix="tgraph-search-") as name:
        own = Path(name, predictor.name)
        own.mkdir()
        for path in predictor.resolve().iterdir():
            if path.name != "search":
                (own / path.name).symlink_to(path)
        yield Path(name)


def run_missing(args: argparse.Namespace) -> None:
    """Do the searches that have no rows yet, one seed of everything after the other."""
    done = set(results(args.results).select(KEY).unique().iter_rows())
    devices = args.devices.split(",")
    wanted = [(n, d, by, s) for s, n, d, by in product(args.seeds, args.networks, devices, args.by)]
    missing = [one for one in wanted if one not in done]
    for one in Lines("searches", len(missing), "run").over(missing):
        rows = search(*one, args)
        with atomic_file(args.results) as temporary:
            pl.concat([results(args.results), rows]).write_parquet(temporary)


def results(path: Path) -> pl.DataFrame:
    """What was measured so far."""
    return pl.read_parquet(path) if path.exists() else pl.DataFrame(schema=SCHEMA)


def by_all(found: pl.DataFrame) -> pl.DataFrame:
    """The searches of tasks that all ways have searched with the same seed."""
    ways = pl.col("by").n_unique().over("task", "device", "seed")
    return found.filter(ways == found["by"].n_unique())


def curves(found: pl.DataFrame) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Of each way: its name, and (tasks, its budget) means over seeds of the logarithm of the
    fastest so far over the fastest of all, and of the seconds until then."""
    place = ["task", "device"]
    fastest = pl.min_horizontal(pl.col("seconds").drop_nans().min(), pl.col("unscheduled").min())
    best = found.group_by(place).agg(fastest.alias("best"))
    for by in RIVALS:
        own = found.filter(by=by).join(best, on=place).sort("trial")
        both = []
        for _, rows in own.group_by(place, maintain_order=True):
            parts = rows.group_by("seed", maintain_order=True)
            both.append(np.mean([_curve(part, own["trial"].max()) for _, part in parts], 0))
        if both:
            gaps, times = np.swapaxes(both, 0, 1)
            yield by, gaps, times


def _curve(rows: pl.DataFrame, budget: int) -> tuple[np.ndarray, np.ndarray]:
    """One search of one task: what it misses of the fastest, and seconds, by measurements."""
    seconds = rows["seconds"].fill_null(np.inf).fill_nan(np.inf).to_numpy()
    # A search that has nothing better uses what is there without it.
    seconds = np.minimum(np.minimum.accumulate(seconds), rows["unscheduled"][0])
    return _filled(np.log(seconds / rows["best"][0]), budget), _filled(rows["known_at"], budget)


def _filled(values: np.ndarray | pl.Series, budget: int) -> np.ndarray:
    """As many as the budget: a search that ran out of schedules stays where it is."""
    values = np.asarray(values, np.float64)
    return np.concatenate([values, np.full(budget - len(values), values[-1])])


def report(found: pl.DataFrame) -> str:
    """The table, of all that was searched by all ways."""
    ways = {by: (gaps, times) for by, gaps, times in curves(found)}
    if AGAINST not in ways:
        return f"nothing was searched by all ways and by {AGAINST}"
    level = ways[AGAINST][0].mean(0)
    budgets = [b for b in BUDGETS if b <= len(level)]
    levels = [b for b in AT if b <= len(level)]
    rows = []
    for by, (gaps, times) in ways.items():
        means, errors = gaps.mean(0), gaps.std(0, ddof=1) / np.sqrt(len(gaps))
        own = [b for b in budgets if b <= len(means)]
        cells = [f"{np.exp(means[b - 1]):.3f} ± {errors[b - 1]:.3f}" for b in own]
        cells += [""] * (len(budgets) - len(own))
        reached = [np.flatnonzero(means <= level[b - 1]) for b in levels]
        cells += [str(one[0] + 1) if len(one) else "more" for one in reached]
        took = " / ".join(f"{np.median(times, 0)[b - 1]:.0f}" for b in own)
        rows.append([by, *cells, took])
    tasks, seeds = len(gaps), found["seed"].n_unique()
    heads = [f"{tasks} tasks, seeds: {seeds}", *map(str, budgets)]
    return table(rows, [*heads, *(f"as {AGAINST} with {b}" for b in levels), "seconds"])


def plot(found: pl.DataFrame, path: Path) -> None:
    """A line a way: the fastest so far over measurements."""
    import matplotlib
    from matplotlib.figure import Figure

    matplotlib.rcParams["svg.hashsalt"] = "tgraph"
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    most = 1
    for by, gaps, _ in curves(found):
        middle, error = gaps.mean(0), gaps.std(0, ddof=1) / np.sqrt(len(gaps))
        trials = np.arange(1, len(middle) + 1)
        axes.plot(trials, np.exp(middle), label=by)
        axes.fill_between(trials, np.exp(middle - error), np.exp(middle + error), alpha=0.15)
        most = max(most, len(middle))
    axes.set(xscale="log", yscale="log", xlabel="measured programs; bands: ± a standard error")
    axes.set_ylabel("fastest so far / fastest of all searches")
    shown = [one for one in BUDGETS if one <= most]
    axes.set_xticks(shown, map(str, shown))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("{x:g}")
    axes.legend()
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})


def main() -> None:
    """Measure what is missing, print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=BUNDLED_PROGRAMS)
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    parser.add_argument("--predictor", default="programs-cpu", help="its folder in the outputs")
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--devices", default="native")
    parser.add_argument("--by", nargs="+", default=list(RIVALS), choices=list(RIVALS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--budget", type=int, default=AT[0])
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--results", type=Path, default=Path(__file__).with_suffix(".parquet"))
    parser.add_argument("--print", action="store_true", help="print what is there, run nothing")
    parser.add_argument("--plot", type=Path, help="draw it, as an svg")
    args = parser.parse_args()
    if not args.print:
        run_missing(args)
    found = by_all(results(args.results))
    print(report(found))
    if args.plot:
        plot(found, args.plot)


if __name__ == "__main__":
    main()
