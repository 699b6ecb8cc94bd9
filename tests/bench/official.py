"""A data root of official size, and what the stages take on it, beside what `make plan` says.

    .venv/bin/python -m tests.bench.official --collection layout-nlp-random --share 0.05
        [--most 4000] [--distinct 24] [--stages 123] [--model tgraph] [--jobs 2] [--keep FOLDER]

Graphs are as many, and have as many nodes, configurable nodes and configurations, as
:mod:`lib.tpugraphs.sizes` says of the collection (``--share`` of the files of each split; with
``--most``, of no graph more configurations than that). What they hold is random, but valid: shapes,
layouts and runtimes mean nothing, so that nothing is said of ranking. Files are compressed least,
which costs stage 1 the same as numpy's own. The configurations of all of `layout-nlp-random` are
350 GB, which take hours to make up and minutes to read: with ``--distinct`` only so many different
files are written, and graphs of about the same size are links to one of them.

Then the plan is made from the files, and after it the stages run: 1 on all files, 2 on fold 0 for
some epochs, 3 on its graphs. Each line has what was measured beside what the plan said of it, which
is of the mean fold: of a small share of the files, fold 0 may be far from it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from joblib import Parallel, delayed

from lib.files.terminal import duration, table
from lib.runs.memory import gigabytes
from lib.runs.stage import record_path
from lib.settings import Settings, root_of, settings_for
from lib.study.measure import measure
from lib.study.plan import Forecast, forecast, graphs_in, sides_of
from lib.tpugraphs.dataset import TPUGRAPHS, write_dataset
from lib.tpugraphs.npz import write_tile
from lib.tpugraphs.sizes import OFFICIAL_SIZES, GraphSize, official_graphs
from tests.bench.rawfiles import write_raw
from tests.kernels import tile_kernel

ROOT = Path(__file__).resolve().parents[2]
STAGES = {"1": "preprocess", "2": "train", "3": "infer"}
REPEATED = {"random": 0.05, "default": 0.2}  # share of configurations that repeat another


def write_root(
    root: Path, collection: str, graphs: list[GraphSize], jobs: int, distinct: int | None = None
) -> None:
    """Write the files of a collection in the official form, and that they are such.

    Args:
        root: the folder.
        collection: its name.
        graphs: what it has; those of the test split have no runtimes.
        jobs: processes.
        distinct: how many different files, about; ``None`` for all.
    """
    folder = root / "npz" / Path(*collection.split("-"))
    write = _write_kernel if collection.startswith("tile") else _write_graph
    alike = _alike(graphs, distinct)
    Parallel(jobs)(delayed(_write_alike)(write, folder, graphs, own) for own in alike)
    write_dataset(root, TPUGRAPHS)


def _alike(graphs: list[GraphSize], distinct: int | None) -> list[list[int]]:
    """Numbers of graphs of about the same size, all of them with runtimes or all without."""
    found = []
    for tested in (False, True):
        own = [n for n, size in enumerate(graphs) if (size.split == "test") == tested]
        own.sort(key=lambda n: graphs[n].configurations * max(1, graphs[n].configurable))
        groups = len(own) if distinct is None else -(-distinct * len(own) // len(graphs))
        found += [part.tolist() for part in np.array_split(own, max(1, groups)) if len(part)]
    return found


def _write_alike(
    write: Callable, folder: Path, graphs: list[GraphSize], own: Sequence[int]
) -> None:
    """Write the middle one, and link the others to it."""
    paths = [folder / graphs[n].split / f"graph_{n}.npz" for n in own]
    middle = len(own) // 2
    write(paths[middle], graphs[own[middle]], own[middle])
    for path in (one for one in paths if one != paths[middle]):
        path.parent.mkdir(parents=True, exist_ok=True)
        os.link(paths[middle], path)


def _write_graph(path: Path, size: GraphSize, seed: int) -> None:
    repeated = REPEATED[path.parents[1].name]
    shape = size.configurations, size.configurable, size.nodes
    write_raw(path, *shape, repeated, level=1, seed=seed, labelled=size.split != "test")


def _write_kernel(path: Path, size: GraphSize, seed: int) -> None:
    kernel = tile_kernel(path.stem, seed, max(1, size.nodes), size.configurations)
    if size.split == "test":
        kernel.config_runtime[:] = kernel.config_runtime_normalizers[:] = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tile(path, kernel)


def run_stage(stage: str, settings: Settings, flags: list[str]) -> float:
    """Run a stage script; seconds of wall-clock time."""
    script = f"0{stage}_{STAGES[stage]}.py"
    extra = {"2": ["--fold", "0"], "3": ["--fold", "0"]}.get(stage, [])
    started = time.perf_counter()
    environment = {**os.environ, "WANDB_MODE": "disabled"}
    line = [sys.executable, script, *flags, *extra]
    subprocess.run(line, cwd=ROOT, check=True, env=environment)
    return time.perf_counter() - started


def measured(stage: str, outputs: Path, settings: Settings) -> dict[str, float]:
    """Seconds and peak memory of a stage's last run, and bytes of what it left."""
    part = STAGES[stage] if stage == "1" else f"{STAGES[stage]}_0"
    record = json.loads(record_path(outputs, part, settings).read_text())
    left = {
        "1": outputs / settings.cache,
        "2": outputs / settings.results / "fold_0",
        "3": outputs / settings.results / "scores",
    }[stage]
    size = sum(path.stat().st_size for path in left.rglob("*") if path.is_file())
    return {"seconds": record["seconds"], "memory": record["peak_memory_bytes"], "disk": size}


def compared(stage: str, said: Forecast, found: dict[str, float]) -> list[str]:
    """A row of the table."""
    known = {"seconds": said.seconds, "memory": said.memory, "disk": said.disk}
    shown = [duration(found["seconds"]), duration(known["seconds"])]
    for key in ("memory", "disk"):
        shown += [gigabytes(found[key]), gigabytes(known[key])]
    ratios = [f"{known[key] / found[key]:.2f}" for key in known]
    return [f"{stage} {STAGES[stage]}", *shown, " ".join(ratios)]


def validation_share(outputs: Path, settings: Settings) -> str:
    """What part of the last run's epochs went to validation."""
    history = pl.read_parquet(outputs / settings.results / "fold_0" / "history.parquet")
    share = history["validation_seconds"].sum() / history["seconds"].sum()
    return f"validation took {share:.1%} of an epoch"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--collection", choices=OFFICIAL_SIZES, required=True)
    parser.add_argument("--share", type=float, default=0.05, help="of the files of each split")
    parser.add_argument("--most", type=int, help="configurations of a graph, at most")
    parser.add_argument("--distinct", type=int, help="different files, about")
    parser.add_argument("--stages", default="123", help="which to run")
    parser.add_argument("--model", help="the default if none is named")
    parser.add_argument("--epochs", type=int, default=2, help="of stage 2")
    parser.add_argument("--folds-total", type=int, default=4, help="a share has no 20 folds")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--keep", type=Path, help="a folder to leave everything in")
    return parser.parse_args()


def rehearse(args: argparse.Namespace, folder: Path) -> None:
    """Write the root, plan, run, and print the table."""
    root, outputs = folder / "data", folder / "outputs"
    graphs = [
        size
        if args.most is None
        else replace(size, configurations=min(size.configurations, args.most))
        for size in official_graphs(args.collection, args.share)
    ]
    if not root.exists():
        started = time.perf_counter()
        write_root(root, args.collection, graphs, args.jobs, args.distinct)
        print(f"wrote {len(graphs)} files in {duration(time.perf_counter() - started)}", flush=True)
    given = {"folds_total": args.folds_total, "epochs": args.epochs}
    given |= {"model": args.model} if args.model else {}
    data = root_of(args.collection, root)
    settings = settings_for(args.collection, data.dataset, given)
    known = graphs_in(data, settings)
    works = [size for sizes in known.values() for size in sizes]
    sides = sides_of(settings, data, works)
    said = forecast(sides, measure(settings, known), settings, folds=1, jobs=args.jobs)
    flags = ["--collection", args.collection, "--data", str(root), "--outputs", str(outputs)]
    for name, value in given.items():
        flags += [f"--{name.replace('_', '-')}", str(value)]
    rows = []
    for stage in args.stages:
        own = [*flags, "--jobs", str(args.jobs)] if stage == "1" else flags
        run_stage(stage, settings, own)
        rows.append(compared(stage, said[STAGES[stage]], measured(stage, outputs, settings)))
    head = ["stage", "time", "plan", "memory", "plan", "disk", "plan", "plan / measured"]
    graphs = works  # as they were written
    cells = sum(one.configurations * one.configurable for one in graphs)
    print(
        f"{args.collection}: {len(graphs)} files, {np.mean([g.nodes for g in graphs]):,.0f} nodes, "
        f"{np.mean([g.configurations for g in graphs]):,.0f} configurations on average, "
        f"{cells:,} layouts of configurable nodes"
    )
    print(table(rows, head))
    if "2" in args.stages:
        print(validation_share(outputs, settings))


def main() -> None:
    """Rehearse in a temporary folder, or in the one that is kept."""
    args = arguments()
    if args.keep:
        rehearse(args, args.keep)
    else:
        with tempfile.TemporaryDirectory() as folder:
            rehearse(args, Path(folder))


if __name__ == "__main__":
    main()
