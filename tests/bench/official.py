"""The competition, rehearsed: collections of official size through all stages, and what they take.

    .venv/bin/python -m tests.bench.official FOLDER [layout-nlp-random ...] [--share 0.05]
        [--most 4000] [--distinct 24] [--epochs 1] [--folds 1] [--permutations 1] [--model tgraph]

Graphs are as many, and have as many nodes, configurable nodes and configurations, as
:mod:`tests.bench.sizes` says of a collection (``--share`` of the files of each split; with
``--most``, of no graph more configurations than that). Their content is random but valid, so that
nothing is said of ranking. The configurations of all of `layout-nlp-random` are 350 GB, which take
hours to make up and minutes to read: with ``--distinct`` only so many different files are written,
and graphs of about the same size are links to one of them.

They go through ``make everything`` and ``make submission``, whose IDs are compared with those of
the test splits: 894 with ``--share 1``. FOLDER keeps data and results, so that the same command
goes on after a kill.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from lib import settings
from lib.files.terminal import duration, table
from lib.runs.identity import record_path
from lib.scoring.submission import read_entries
from lib.tpugraphs.dataset import TPUGRAPHS
from lib.tpugraphs.npz import write_tile
from tests.bench.rawfiles import write_raw
from tests.bench.sizes import OFFICIAL_SIZES, GraphSize, official_graphs
from tests.kernels import tile_kernel
from tests.stages import REPOSITORY, environment
from tests.synthetic import write_dataset

REPEATED = {"random": 0.05, "default": 0.2}  # share of configurations that repeat another


def write_root(root: Path, collection: str, graphs: list[GraphSize], distinct: int | None) -> None:
    """Write the files of a collection in the official form.

    Args:
        root: the folder.
        collection: its name.
        graphs: their sizes; those of the test split get no runtimes.
        distinct: how many different files, about; ``None`` for all.
    """
    folder = root / "npz" / Path(*collection.split("-"))
    write = _write_kernel if collection.startswith("tile") else _write_graph
    jobs = len(os.sched_getaffinity(0))
    alike = _alike(graphs, distinct)
    Parallel(jobs)(delayed(_write_alike)(write, folder, graphs, own) for own in alike)


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


def rows_of(folder: Path, collection: str, model: str | None) -> list[list[str]]:
    """Seconds, peak memory and size of what each stage of a collection left."""
    named = model if model in settings.MODELS[settings.COLLECTIONS[collection]] else None
    dataset = replace(TPUGRAPHS, root=folder / "data")
    chosen = settings.settings_for(collection, dataset, {"model": named} if named else {})
    outputs, rows = folder / "outputs", []
    results = outputs / chosen.results
    left = {
        "preprocess": outputs / chosen.cache,
        "train_0": results / "fold_0",
        "infer_0": results / "scores",
        "ensemble": results / "submission.csv",
    }
    for part, place in left.items():
        record = json.loads(record_path(outputs, part, chosen).read_text())
        files = [place, *place.rglob("*")]
        size = sum(path.stat().st_size for path in files if path.is_file())
        gigabytes = [f"{number / 1e9:.2f}" for number in (record["peak_memory_bytes"], size)]
        rows.append([collection, part, duration(record["seconds"]), *gigabytes])
    return rows


def main() -> None:
    """Write what is missing, run `make all` of each collection, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("collections", nargs="*", default=[*OFFICIAL_SIZES])
    parser.add_argument("--share", type=float, default=0.05, help="of the files of each split")
    parser.add_argument("--most", type=int, default=10**6, help="configurations of a graph")
    parser.add_argument("--distinct", type=int, help="different files, about")
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--folds", type=int, default=1)
    parser.add_argument("--permutations", type=int, default=1)
    parser.add_argument("--model", help="the default if none is named; tiles have their own")
    args = parser.parse_args()
    root, outputs, sample = args.folder / "data", args.folder / "outputs", set()
    for collection in args.collections:
        graphs = [
            replace(size, configurations=min(size.configurations, args.most))
            for size in official_graphs(collection, args.share)
        ]
        if not (done := root / f"{collection}.done").exists():
            write_root(root, collection, graphs, args.distinct)
            write_dataset(root, TPUGRAPHS)
            done.touch()
        identifier = collection.replace("-", ":")
        for number, size in enumerate(graphs):
            if size.split == "test":
                sample.add(f"{identifier}:graph_{number}")

    words = [f"DATA={root}", f"OUTPUTS={outputs}", f"FOLDS={args.folds}", f"EPOCHS={args.epochs}"]
    words += [f"TTA={args.permutations}", *([f"MODEL={args.model}"] if args.model else [])]
    make = partial(subprocess.run, cwd=REPOSITORY, env=environment(), check=True)
    make(["make", "everything", *words])
    rows = [row for name in args.collections for row in rows_of(args.folder, name, args.model)]
    print(table(rows, ["collection", "stage", "time", "memory, GB", "disk, GB"]), flush=True)
    model = [f"MODEL={args.model}"] if args.model else []
    make(["make", "submission", *words[:2], "PARTIAL=1", *model])
    (submission,) = outputs.glob("submission*.csv")
    assert read_entries(submission).keys() == sample, "IDs of Kaggle's form"


if __name__ == "__main__":
    main()
