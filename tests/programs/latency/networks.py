"""A network as TVM's environment writes it, made without TVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lib.collect.tvm import raw
from lib.programs.tensorir.accesses import unknown
from lib.programs.tensorir.features import WIDTH
from lib.programs.tensorir.tree import COLUMNS
from tests.programs.tensorir.trees import joined, tree

SHAPES = (["x"], [["x"], ["x"]], [["0"], [["x"]], "x"])  # 1, 2 and 2 leaves
CALLS = ((0, ()), (1, (0,)), (0, (0,)), (2, (1, 2)))  # task, and what it waits for


def write_network(path: Path, programs: int = 3, about: Any = None, **arrays: Any) -> Path:
    """A diamond of four calls of three tasks; ``about`` and ``arrays`` replace parts of it."""
    rng = np.random.default_rng(0)
    tasks = 1 + max(task for task, _ in CALLS)
    trees = [tree(SHAPES[k % len(SHAPES)]) for k in range(tasks * programs)]
    forest = joined(trees)
    made = {
        **{name: getattr(forest, name) for name in COLUMNS},
        "hash": np.array([f"{k:016x}" for k in range(len(trees))], "U16"),
        "owner": np.repeat(np.arange(tasks), programs).astype(np.int32),
        "joined": np.ones(len(trees), bool),
        "leaves": np.array([len(one.leaves) for one in trees], np.int32),
        "nodes": np.array([one.nodes for one in trees], np.int32),
        "features": rng.uniform(0, 4, (len(forest.leaves), WIDTH)).astype(np.float32),
        "accesses": unknown(len(forest.leaves)),
    }
    said = {
        "network": "diamond.b1",
        "seed": 0,
        "calls": [
            {"task": task, "after": list(after), "reads": [[k, 4096]], "writes": 64}
            for k, (task, after) in enumerate(CALLS)
        ],
        "tasks": [{"task": f"{k:016x}", "operators": f"op{k}"} for k in range(tasks)],
    }
    raw.write(path, {**made, **arrays}, {**said, **(about or {})})
    return path
