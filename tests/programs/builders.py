"""Small datasets of tensor programs with a known rule behind their latencies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lib.cache.reader import Cache
from lib.files.parquet import write_parquet
from lib.preprocess.collection import RawFile, write_cache
from lib.programs.settings import ProgramPlusSettings, ProgramSettings
from lib.programs.tensorir.accesses import COLUMNS as ACCESSES
from lib.programs.tensorir.features import FEATURES, WIDTH
from lib.programs.tensorir.records import table_path
from lib.programs.tensorir.tree import COLUMNS, positions
from tests.programs.tensorir.trees import joined, tree

COLLECTION = "programs-cpu"
SHAPES = (["x"], [["x"], ["x"]], [["0"], [["x"]], "x"], [["x", "x"], ["x"]])  # 1, 2, 2, 3 leaves
SPEED = {"sse2": 1.0, "avx512": 2.0}  # work per unit of time
WORK = FEATURES.index("loops_product")
SLOW = FEATURES.index("buffer0_stride")  # a program is slower by this feature
NOISE = 3  # features that say nothing
OPERATORS = ("conv2d_add_relu", "matmul3_add", "softmax")
TINY = {
    **{"channels": 16, "layers": 1, "batch": 64, "epochs": 3},
    **{"folds_total": 2, "best_folds": 2, "learning_rate": 5e-3},
}


def tiny_settings(**overrides: Any) -> ProgramSettings:
    """Settings of a network and a run of milliseconds."""
    return ProgramSettings(COLLECTION, **{**TINY, "heads": 2, **overrides})


def tiny_plus(**overrides: Any) -> ProgramPlusSettings:
    """The same of CDMPP+."""
    return ProgramPlusSettings(COLLECTION, **{**TINY, "validate_every": 2, **overrides})


def device(name: str) -> dict[str, Any]:
    """What a dataset says of one."""
    return {"name": f"cpu.{name}.1t", "instructions": name, "processor": "CPU", "threads": 1}


def write_root(
    root: Path, tasks: int = 12, programs: int = 10, seed: int = 0, slow: float = 1.0
) -> Path:
    """A dataset; returns its folder.

    A network calls two tasks of its own and one that it shares with the next network; the first
    network's tasks are the test. The last program of every task is measured on one device alone,
    and looks like its first; the second was measured twice. What slows some programs down does so
    ``slow`` times as much.
    """
    rng = np.random.default_rng(seed)
    root.mkdir(parents=True, exist_ok=True)
    networks = [(k // 3, k) for k in range(tasks)]
    networks += [(k // 3, k + 1) for k in range(5, tasks - 1, 3)]  # shared with the next
    test = {task for network, task in networks if network == 0}
    forests, features, latencies = [], [], []
    for task in range(tasks):
        work = rng.uniform(12, 20)
        for number in range(programs):
            forest = tree(SHAPES[(task + number) % len(SHAPES)])
            leaves = np.full((len(forest.leaves), WIDTH), 2.0)
            leaves[:, :NOISE] = rng.uniform(0, 4, (len(leaves), NOISE))
            leaves[:, WORK] = work
            leaves[:, SLOW] = rng.uniform(0, 3)
            if number == programs - 1:
                forest, leaves = forests[-programs + 1], features[-programs + 1]
            forests.append(forest)
            features.append(leaves.astype(np.float16).astype(np.float32))
            seconds = 1e-9 * np.exp2(features[-1][:, WORK] + slow * features[-1][:, SLOW]).sum()
            for place, speed in enumerate(SPEED.values()):
                if place and number == programs - 1:
                    continue
                again = seconds / speed * 1.02 if number == 1 else None
                row = (task * programs + number, place, seconds / speed, again)
                latencies.append(row)
    _write(root, tasks, programs, networks, test, forests, features, latencies)
    return root


def _write(root, tasks, programs, networks, test, forests, features, latencies) -> None:
    forest = joined(forests)
    table = {
        "tasks": pl.DataFrame(
            {
                "task": [f"{k:016x}" for k in range(tasks)],
                "operators": [OPERATORS[k % len(OPERATORS)] for k in range(tasks)],
                "arguments": ["[]"] * tasks,
                "split": ["test" if k in test else "train" for k in range(tasks)],
                "flops": [1e6] * tasks,
            }
        ),
        "networks": pl.DataFrame(
            {
                "network": [f"net{n}.w8.b1" for n, _ in networks],
                "family": [f"net{n}" for n, _ in networks],
                "task": [task for _, task in networks],
                "calls": [1] * len(networks),
            }
        ),
        "programs": pl.DataFrame(
            {
                "task": np.repeat(np.arange(tasks), programs),
                "schedule": [f"{k:016x}" for k in range(len(forests))],
                "round": [0] * len(forests),
                "leaves": [len(one.leaves) for one in forests],
                "nodes": [one.nodes for one in forests],
            }
        ),
        "nodes": pl.DataFrame({name: getattr(forest, name) for name in COLUMNS}),
        "leaves": pl.DataFrame(np.concatenate(features), schema=list(FEATURES)).with_columns(
            position=positions(forest)
        ),
        "accesses": pl.DataFrame(  # alike where features are
            np.repeat(np.floor(np.concatenate(features)[:, :1]), len(ACCESSES), 1),
            schema=list(ACCESSES),
        ),
        "latencies": pl.DataFrame(
            latencies,
            schema={
                **{"program": pl.Int32, "device": pl.Int8, "seconds": pl.Float32},
                "again": pl.Float32,
            },
            orient="row",
        ),
    }
    for name, frame in table.items():
        write_parquet(frame, table_path(root, name))
    about = {
        **{"kind": "programs", "name": "synthetic", "compiler": "none", "labels": "a rule"},
        **{"source": "tests/programs.py", "licence": "Apache-2.0", "hardware": ["CPU"]},
        "devices": [device(name) for name in SPEED],
    }
    (root / "dataset.json").write_text(json.dumps(about))


def write_programs(folder: Path, **sizes: int) -> Cache:
    """A cache of a synthetic dataset."""
    return cached(write_root(folder / "root", **sizes), folder / "cache")


def cached(root: Path, folder: Path) -> Cache:
    """The cache of a dataset."""
    files = [RawFile(root / "dataset.json", "train")]
    write_cache(folder, files, {"collection": COLLECTION}, kind="programs")
    return Cache(folder)
