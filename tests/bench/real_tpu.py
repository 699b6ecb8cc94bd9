"""One real program on a TPU v3: are configurations ranked that were not learned from?

    .venv/bin/python -m tests.bench.real_tpu [--repeats 10] [--steps 200]

The program of ``data/tpu-v3-sample`` has 112 measured configurations, 91 distinct ones. In each
repeat a quarter of these, drawn anew, is held out; a network learns from the others alone and ranks
the held-out ones. Beside each network stands the arithmetic that learns nothing (bytes whose
minor-most dimension moved).

How far the labels can be believed, repeated configurations show: they were measured more than
once. Repeats share most of what they learn from, so that the error of the mean that is printed, the
standard deviation over the square root of their number, is too small for another program.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch

from lib.cache.compress import compress
from lib.cache.graph import CachedGraph
from lib.files.terminal import table
from lib.inputs.kinds import input_of, network_for
from lib.ranking.baseline import moved_bytes
from lib.ranking.metrics import kendall_tau
from lib.settings import BUNDLED_TPU, Settings, settings_for
from lib.tpugraphs.dataset import read_dataset
from lib.tpugraphs.npz import LayoutGraph, read_layout
from lib.train.copies import CopiesFold
from lib.train.fold import Fold, LabelledGraph
from lib.train.loop import FoldTraining, new_network
from lib.train.pruned import PrunedFold
from tests.tpu import PROGRAM

COLLECTION = "layout-xla-default"
HELD_OUT = 0.25  # of the distinct configurations
MODELS = ("tgraph-plus", "tgraph")


def split(count: int, repeat: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions to learn from and to hold out."""
    order = np.random.default_rng(repeat).permutation(count)
    held = round(HELD_OUT * count)
    return np.sort(order[held:]), np.sort(order[:held])


def part(graph: CachedGraph, rows: np.ndarray) -> CachedGraph:
    """A graph with some of its configurations alone."""
    kept = {"cells": graph.cells[rows], "runtime": graph.runtime[rows]}
    return replace(graph, **kept, original=np.arange(len(rows), dtype=np.int32))


def fold_of(graph: CachedGraph, rows: np.ndarray, held: np.ndarray, settings: Settings) -> Fold:
    """What to train on, and what to validate on: the same program, other configurations."""
    prepare, sides = input_of(settings).prepare, []
    for own in (part(graph, rows), part(graph, held)):
        sides.append([LabelledGraph(own.name, prepare(own, settings), own.runtime)])
    if settings.input == "copies":
        return CopiesFold(*sides, settings.configurations)
    return PrunedFold(*sides)


def held_out_tau(model: str, repeat: int, steps: int, state: Path) -> float:
    """Kendall's tau on configurations that a network has not seen."""
    given = {"model": model, "epochs": steps, "validate_every": steps, "seed": repeat}
    given["configurations"] = 128  # all of them in every step
    settings = settings_for(COLLECTION, read_dataset(BUNDLED_TPU), given)
    raw = read_layout(PROGRAM)
    graph = compress(raw, "train", settings.hops, path=PROGRAM)
    data = fold_of(graph, *split(len(graph.cells), repeat), settings)
    network = new_network(lambda: network_for(settings), data, repeat, 0)
    training = FoldTraining(network, data, settings, 0)
    list(training.run(state, f"{model} {repeat}"))
    return training.validation("last")["tau"]


def noise(raw: LayoutGraph) -> str:
    """How much repeated configurations differ, and how much all do."""
    rows = raw.node_config_feat.reshape(len(raw.node_config_feat), -1)
    _, number = np.unique(rows, axis=0, return_inverse=True)
    times = [raw.config_runtime[number.ravel() == k] for k in range(number.max() + 1)]
    again = [np.log(own / own.mean()) for own in times if len(own) > 1]
    free = sum(len(own) - 1 for own in again)
    spread = np.sqrt(sum((own**2).sum() for own in again) / free) if free else float("nan")
    logs = np.log(raw.config_runtime)
    return (
        f"{len(rows)} configurations, {len(times)} distinct; the slowest "
        f"{np.expm1(logs.max() - logs.min()):.2%} above the fastest, standard deviation "
        f"{logs.std():.3%}; of one that was measured again (there are {len(again)}) {spread:.3%}"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--steps", type=int, default=200, help="of training")
    args = parser.parse_args()
    torch.set_num_threads(1)
    raw = read_layout(PROGRAM)
    graph = compress(raw, "train", "all", path=PROGRAM)
    plain, repeats = moved_bytes(graph), range(args.repeats)
    taus = {"arithmetic": []}
    for repeat in repeats:
        _, held = split(len(graph.cells), repeat)
        taus["arithmetic"].append(kendall_tau(plain[held], graph.runtime[held]))
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            taus[model] = [
                held_out_tau(model, repeat, args.steps, Path(folder) / f"{model}{repeat}")
                for repeat in repeats
            ]
    print(noise(raw))
    rows = []
    for name, own in taus.items():
        error = np.std(own, ddof=1) / np.sqrt(len(own))
        rows.append(
            [name, f"{np.mean(own):.3f} +- {error:.3f}", f"{min(own):.2f}", f"{max(own):.2f}"]
        )
    print(table(rows, [f"tau, {args.repeats} repeats", "mean", "least", "most"]))


if __name__ == "__main__":
    main()
