"""A work folder as the collector leaves it, made without TVM."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np

from lib.collect.tvm import plan, raw
from lib.files.artifacts import write_json
from lib.programs.tensorir.accesses import unknown
from lib.programs.tensorir.features import WIDTH
from lib.programs.tensorir.tree import COLUMNS
from tests.programs.tensorir.trees import joined, tree

DEVICES = [["sse2", "x86-64"], ["avx2", "core-avx2"], ["avx512", "skylake-avx512"]]
SHAPES = ([[["0"], [["x"]], "x"]], [[["x"]]], [["x"], [["x"], "0"], "x"])
VISITS = 10  # readings a program
TESTED = "resnet50.w32_s64.b1"  # a network of the test


def task_name(k: int) -> str:
    """The hash of the k-th task."""
    return f"{zlib.crc32(str(k).encode()):08x}{k:08x}"


def write_task(work: Path, k: int, split: str = "train") -> str:
    """One task; returns its hash."""
    name = task_name(k)
    metadata = {
        "task": name,
        "operators": "conv2d_add_relu" if k % 2 else "matmul3",
        "arguments": [{"shape": [4, 8], "dtype": "float32"}],
        "split": split,
        "flops": 1e6,
        "module": "{}",
    }
    write_json(plan.task_path(work, name), metadata)
    return name


def write_network(work: Path, name: str, tasks: dict[str, int]) -> None:
    """One network that calls tasks."""
    rows = [{"task": task, "calls": calls} for task, calls in sorted(tasks.items())]
    write_json(plan.network_path(work, name), {"network": name, "tasks": rows})


def write_raw(
    work: Path, phase: str, turn: int, task: str, n: int = 3, scale: float = 1.0, **changes
) -> Path:
    """One raw file of ``n`` programs; ``changes`` replace arrays or parts of ``about``."""
    seed = zlib.crc32(f"{task}{turn}".encode())
    random = np.random.default_rng(seed)
    trees = [tree(SHAPES[(seed + k) % len(SHAPES)]) for k in range(n)]
    forest = joined(trees) if trees else None
    seconds = np.full((len(DEVICES), n, 1 + VISITS), np.nan)
    base = 1e-4 * random.uniform(1, 9, (len(DEVICES), n, 1)) * scale
    seconds[..., 0] = 1.5 * base[..., 0]
    seconds[..., 1:6] = base * np.array([1.4, 1.0, 1.2, 1.3, 1.1])
    leaves = [len(one.leaves) for one in trees]
    arrays = {
        "hash": np.array([f"{seed:08x}{turn:04x}{k:04x}" for k in range(n)], "U16"),
        "traces": np.frombuffer(zlib.compress(json.dumps([""] * n).encode()), np.uint8),
        "features": random.uniform(0, 30, (sum(leaves), WIDTH)).astype(np.float32),
        "leaves": np.array(leaves, np.int32),
        "nodes": np.array([one.nodes for one in trees], np.int32),
        "joined": np.ones(n, bool),
        **{name: getattr(forest, name) for name in COLUMNS if n},
        "seconds": seconds,
        "check": np.tile([1.0, 0.01], (len(DEVICES), n, 1)),
        "accesses": unknown(sum(leaves)),
    }
    about = {
        "task": task,
        "round": turn,
        "phase": phase,
        "process": "a",
        "processor": "AMD EPYC (family 26, model 2)",
        "threads": 1,
        "devices": DEVICES,
        "opt_level": 2,
        "measured_at": "2026-01-01T00:00:00Z",
    }
    about |= {key: changes.pop(key) for key in tuple(changes) if key in about}
    place = raw.path(work, phase, turn, task)
    raw.write(place, arrays | changes, about)
    return place


def write_work(work: Path, tasks: int = 12, rounds: int = 2) -> list[str]:
    """A work folder: tasks 0 to 2 are called by a network of the test, the last is searched."""
    splits = ["test"] * 3 + ["train"] * (tasks - 4) + ["search"]
    names = [write_task(work, k, split=split) for k, split in enumerate(splits)]
    write_network(work, TESTED, {names[0]: 2, names[1]: 1, names[2]: 1})
    write_network(work, "mlp.w8_l1.b1", dict.fromkeys(names[2:], 1))
    for turn in range(rounds):
        for k, name in enumerate(names[:-1]):
            write_raw(work, "main", turn, name)
            if k % 3 == 0:
                write_raw(work, "again", turn, name, scale=1.02)
    write_raw(work, "main", 0, names[-1], n=5)
    return names
