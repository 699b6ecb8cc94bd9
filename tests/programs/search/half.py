"""Stands for the half of a search that has TVM: makes programs up, and says what they take.

Started as ``lib.collect.tvm.search`` is. Network ``wrong`` is refused, ``dying`` is killed once.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path

import numpy as np

from lib.programs.messages import OURS, receive, send
from lib.programs.tensorir.accesses import unknown
from lib.programs.tensorir.features import WIDTH
from lib.programs.tensorir.tree import COLUMNS
from tests.programs.latency.networks import SHAPES
from tests.programs.tensorir.trees import joined, tree

TASKS = {"conv2d": "0a" * 8, "matmul": "0b" * 8}
ROUND, DRAWN = 4, 16


def programs(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """As many as are drawn in a round; one of them cannot be read."""
    trees = [tree(SHAPES[k % len(SHAPES)]) for k in range(DRAWN)]
    forest = joined(trees)
    return {
        **{name: getattr(forest, name) for name in COLUMNS},
        "hash": np.array([""] * DRAWN, "U16"),
        "joined": np.arange(DRAWN) != 3,
        "leaves": np.array([len(one.leaves) for one in trees], np.int32),
        "nodes": np.array([one.nodes for one in trees], np.int32),
        "features": rng.uniform(0, 4, (len(forest.leaves), WIDTH)).astype(np.float32),
        "accesses": unknown(len(forest.leaves)),
    }


def tell(about: dict, arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Say something and return the answer."""
    send(sys.stdout.buffer, about, arrays)
    return receive(sys.stdin.buffer)[1]


def search(task: str, name: str, args: argparse.Namespace) -> None:
    """Rounds until the budget is used up; the task's file has what was measured."""
    path = args.folder / f"{task}.json"
    before = json.loads(path.read_text()) if path.exists() else []
    about = {"kind": "begin", "task": task, "operators": name, "unscheduled": 1e-3}
    tell(about, {"seconds": np.array(before, np.float64)})
    while len(before) < args.budget:
        rng = np.random.default_rng([args.seed, len(before)])
        drawn = programs(rng)
        seconds = rng.uniform(1e-5, 1e-4, DRAWN)
        seconds[5] = np.nan
        if args.cost_model == "predictor":
            logs = tell({"kind": "predict", "task": task}, drawn)["logs"]
            assert np.isnan(logs[3]) and np.isfinite(np.delete(logs, 3)).all()
            tell({"kind": "measured", "task": task}, {**drawn, "seconds": seconds})
        taken = seconds[:ROUND][: args.budget - len(before)]
        before += taken.tolist()
        path.write_text(json.dumps(before))
        tell({"kind": "round", "task": task}, {"seconds": taken})
        if args.network == "dying" and len(before) == 2 * ROUND:
            os.kill(os.getpid(), signal.SIGKILL)
    tell({"kind": "end", "task": task}, {})


def main() -> None:
    """Be searched."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("network")
    for name in ("batch", "budget", "seed", "threads"):
        parser.add_argument(f"--{name}", type=int)
    parser.add_argument("--shape")
    for name in ("device", "cost-model", "schedules"):
        parser.add_argument(f"--{name}")
    args = parser.parse_args(sys.argv[3:])
    if args.network == "wrong":
        sys.exit("error: no such network")
    rows = [{"task": task, "calls": 2} for task in TASKS.values()]
    tell({"kind": "plan", "network": args.network, "tasks": rows}, {})
    for name, task in TASKS.items():
        search(task, name, args)
    whole = {"seconds": {OURS: 1e-3, "PyTorch": 5e-3}, "difference": 3e-7, "waited": 0.5}
    tell({"kind": "whole", **whole}, {})


if __name__ == "__main__":
    main()
