"""A fold of official size: what its training and its scores take on this machine.

    .venv/bin/python -m tests.bench.fold [layout-xla-random ...] [--device cuda] [--share 1]
        [--steps 20] [--precision bfloat16]

Graphs are as many and as large as official ones (:mod:`tests.bench.sizes`), made up, pruned as
stage 1 does, with 1,000 configurations each: a step draws from them, and takes as long as from
more. `tgraph` of official data trains by the loop of 02_train.py for an epoch that does not count,
and for some that do; a fold has 750 of those, with one validation each. Scores under ten
permutations are timed on the largest validation graphs, and reckoned for all configurations of the
fold's validation graphs and of the test graphs.
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


def main() -> None:
    """Print a row for each collection, and what all of them take."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("collections", nargs="*", default=list(OFFICIAL_SIZES)[:4])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--share", type=float, default=1.0, help="of the graphs")
    parser.add_argument("--steps", type=int, default=20, help="of each graph")
    parser.add_argument("--precision", default="bfloat16")
    args = parser.parse_args()
    rows, total = [], 0.0
    for collection in args.collections:
        flags = {"model": "tgraph", "device": args.device, "precision": args.precision}
        official = settings.settings_for(collection, TPUGRAPHS, flags)
        trial = replace(official, epochs=args.steps + 1)
        row, seconds = measured(trial, official, args.share)
        rows.append([collection, *row])
        total += seconds
        print(table([[*rows[-1]]]), flush=True)
    print(f"`python -m tests.bench.fold`, {processor(torch.device(args.device))}, {args.precision}")
    names = ["collection", "nodes, mean", "step, ms", "validation, s", "training", "scores a s"]
    print(table([[*names, "stage 3"], *rows]))
    print(f"{FOLDS} folds of {len(rows)} collections: {duration(FOLDS * total)}")


def measured(trial, official, share: float) -> tuple[list[str], float]:
    """Return a row, and the seconds of a fold.

    Args:
        trial: settings, with few epochs.
        official: those of official data.
        share: of the graphs.
    """
    sizes = official_graphs(trial.collection, share)
    labelled = [made(size, number, trial) for number, size in enumerate(sizes)]
    learning = [g for g, size in zip(labelled, sizes, strict=True) if size.split != "test"]
    valid = learning[:: official.folds_total]
    train = [graph for graph in learning if graph not in valid]
    with tempfile.TemporaryDirectory() as folder:
        training = Training(Fold(train, valid, trial), 0, Path(folder) / "state", "bench")
        epochs = list(training.run())[1:]
    validation = statistics.median(row["validation_seconds"] for row in epochs)
    trained = statistics.median(row["seconds"] for row in epochs) - validation
    learned = official.epochs * (trained + validation / official.validate_every)
    network, seen = training.network.eval(), input_of(trial)
    sample, started = valid[:SCORED], time.perf_counter()
    for graph in sample:
        orders = [np.random.default_rng(n).permutation(TOTAL) for n in range(official.permutations)]
        seen.groupings(network, graph.prepared, np.stack(orders), trial.inference_configurations)
    speed = len(sample) * TOTAL / (time.perf_counter() - started)
    held = sum(size.configurations for size in sizes if size.split == "test")
    held += sum(s.configurations for s in sizes if s.split != "test") / official.folds_total
    nodes = statistics.mean(len(graph.prepared.features) for graph in train)
    cells = [f"{nodes:,.0f}", f"{1e3 * trained / len(train):.2f}", f"{validation:.2f}"]
    return [
        *cells,
        duration(learned),
        f"{speed:,.0f}",
        duration(held / speed),
    ], learned + held / speed


def made(size: GraphSize, seed: int, trial) -> LabelledGraph:
    """Return a graph of a size, ready for the network."""
    shape = Shape(size.nodes, size.configurable, trial.configurations)
    graph = pruned(program_graph(shape, TOTAL, seed), trial.hops)
    return LabelledGraph(str(seed), input_of(trial).prepare(graph, trial), graph.runtime)


if __name__ == "__main__":
    main()
