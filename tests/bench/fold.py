"""A fold of official size: what its training and its scores take on this machine.

    .venv/bin/python -m tests.bench.fold [layout-xla-random ...] [--device cuda] [--share 1]
        [--steps 20] [--precision bfloat16]
    .venv/bin/python -m tests.bench.fold --reckoned

Graphs are as many and as large as official ones (:mod:`tests.bench.sizes`), made up, pruned as
stage 1 does, with 1,000 configurations each: a step draws from them, and takes as long as from
more. `tgraph` of official data trains by the loop of 02_train.py for an epoch that does not count,
and for some that do; a fold has 750 of those, with one validation each. Scores under ten
permutations are timed on the largest validation graphs, and reckoned for all configurations of the
fold's validation graphs and of the test graphs.

``--reckoned`` times nothing. It takes a step and a batch of a graph to last as the shapes of
docs/results/speed.md did on an H200 in bfloat16: by its cells as the larger one, and at least as
long as the smaller one. Permutations share nothing there.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from lib import settings
from lib.cache.prune import pruned
from lib.files.terminal import duration, table
from lib.models.common.input import input_of
from lib.tpugraphs.dataset import TPUGRAPHS
from lib.training.fold import Fold
from lib.training.split import LabelledGraph
from tests.bench.case import Shape, program_graph
from tests.bench.sizes import OFFICIAL_SIZES, GraphSize, official_graphs
from tests.bench.train_step import processor
from tests.training_loop import Training

TOTAL = 1000  # configurations of a graph
FOLDS = 5
SCORED = 3  # graphs whose scores are timed
STEP, BATCH = (8.4e-3, 12.9e-3), (2.5e-3, 4.9e-3)  # seconds of both shapes on the H200
CELLS = 3000 * 128  # (node, configuration) pairs of the larger one
Times = tuple[float, float, float]  # an epoch's steps, a validation; scores a second


def main() -> None:
    """Print a row for each collection, and what all of them take."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("collections", nargs="*", default=list(OFFICIAL_SIZES)[:4])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--share", type=float, default=1.0, help="of the graphs")
    parser.add_argument("--steps", type=int, default=20, help="of each graph")
    parser.add_argument("--precision", default="bfloat16")
    parser.add_argument("--reckoned", action="store_true", help="from an H200's steps; run nothing")
    args = parser.parse_args()
    rows, total = [], 0.0
    for collection in args.collections:
        flags = {"model": "tgraph", "device": args.device, "precision": args.precision}
        official = settings.settings_for(collection, TPUGRAPHS, flags)
        row, seconds = fold_of(official, args.share, 0 if args.reckoned else args.steps)
        rows.append([collection, *row])
        total += seconds
        print(table([[*rows[-1]]]), flush=True)
    where = "an H200, reckoned" if args.reckoned else processor(torch.device(args.device))
    print(f"`python -m tests.bench.fold`, {where}, {args.precision}")
    names = ["collection", "nodes, mean", "step, ms", "validation, s", "training", "scores a s"]
    print(table([[*names, "stage 3"], *rows]))
    print(f"{FOLDS} folds of {len(rows)} collections: {duration(FOLDS * total)}")


def fold_of(official, share: float, steps: int) -> tuple[list[str], float]:
    """Return a row, and the seconds of a fold.

    Args:
        official: settings of official data.
        share: of the graphs.
        steps: of each graph that are timed; 0 reckons them.
    """
    sizes = official_graphs(official.collection, share)
    graphs = [made(size, number, official) for number, size in enumerate(sizes)]
    learning = [g for g, size in zip(graphs, sizes, strict=True) if size.split != "test"]
    valid = learning[:: official.folds_total]
    train = [graph for graph in learning if graph not in valid]
    known = measured(official, train, valid, steps) if steps else reckoned(official, train, valid)
    trained, validation, speed = known
    learned = official.epochs * (trained + validation / official.validate_every)
    held = sum(size.configurations for size in sizes if size.split == "test")
    held += sum(s.configurations for s in sizes if s.split != "test") / official.folds_total
    nodes = statistics.mean(len(graph.prepared.features) for graph in train)
    cells = [f"{nodes:,.0f}", f"{1e3 * trained / len(train):.2f}", f"{validation:.2f}"]
    cells += [duration(learned), f"{speed:,.0f}", duration(held / speed)]
    return cells, learned + held / speed


def measured(official, train: list[LabelledGraph], valid: list[LabelledGraph], steps: int) -> Times:
    """Train for some steps of each graph and one more, and score the largest validation graphs."""
    trial = replace(official, epochs=steps + 1)
    with tempfile.TemporaryDirectory() as folder:
        training = Training(Fold(train, valid, trial), 0, Path(folder) / "state", "bench")
        epochs = list(training.run())[1:]
    validation = statistics.median(row["validation_seconds"] for row in epochs)
    trained = statistics.median(row["seconds"] for row in epochs) - validation
    network, seen = training.network.eval(), input_of(trial)
    sample, started = valid[:SCORED], time.perf_counter()
    for graph in sample:
        orders = [np.random.default_rng(n).permutation(TOTAL) for n in range(official.permutations)]
        seen.groupings(network, graph.prepared, np.stack(orders), trial.inference_configurations)
    return trained, validation, len(sample) * TOTAL / (time.perf_counter() - started)


def reckoned(official, train: list[LabelledGraph], valid: list[LabelledGraph]) -> Times:
    """Take steps and batches to last as those of docs/results/speed.md."""

    def seconds(graphs: list[LabelledGraph], size: int, least: float, whole: float) -> float:
        cells = [len(graph.prepared.features) * size for graph in graphs]
        return sum(max(least, whole * count / CELLS) for count in cells)

    scored = official.inference_configurations
    batches = seconds(valid, scored, *BATCH)  # one of each graph
    some = min(TOTAL, official.validation_configurations) / scored
    speed = len(valid) * scored / batches / official.permutations
    return seconds(train, official.configurations, *STEP), some * batches, speed


def made(size: GraphSize, seed: int, trial) -> LabelledGraph:
    """Return a graph of a size, ready for the network."""
    shape = Shape(size.nodes, size.configurable, trial.configurations)
    graph = pruned(program_graph(shape, TOTAL, seed), trial.hops)
    return LabelledGraph(str(seed), input_of(trial).prepare(graph, trial), graph.runtime)


if __name__ == "__main__":
    main()
