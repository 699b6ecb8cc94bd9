"""Real programs on a TPU v3: are configurations ranked that were not learned from?

    .venv/bin/python -m tests.bench.real_tpu [--methods NAME ...] [--seeds 3]

Three official graphs with runtimes (``../shared/tpugraphs/official``; without them it says so and
ends) are each ranked

* *within*: learned from half of its distinct configurations, from 256 and from 64, drawn anew with
  each seed; the others are ranked;
* *across*: learned from the graphs of other programs, all of their configurations. Both programs
  are U-Nets, so this flatters what is learned.

Beside the two networks stand arithmetic that learns nothing, and ridge regression and boosting on
one-hots of (node, role, layout), which can learn within a graph only.

``tau`` is of the order that would be submitted, which has no ties. Configurations of a graph are
combinations of few choices, as the layouts of many nodes go together. So the error is no standard
error over configurations, but a jackknife over choices: each in turn is held to its most frequent
value, and how far tau moves is summed up.

What was measured is kept in ``real_tpu.parquet`` beside this file, and is not run again.
``--print`` runs nothing. 2,100 steps of ``tgraph`` take some minutes on a core, all else seconds.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import torch

from lib.cache.graph import CachedGraph
from lib.files.artifacts import atomic_file
from lib.files.named import named
from lib.files.terminal import table
from lib.models.common.input import input_of
from lib.ranking.baseline import moved_bytes, padded_work
from lib.ranking.blending import places_of
from lib.ranking.metrics import kendall_tau
from lib.ranking.rounds import noise_of, repeated_ceiling
from lib.settings import Settings, settings_for
from lib.tpugraphs.dataset import TPUGRAPHS
from lib.tpugraphs.npz import read_layout
from lib.training.fold import Fold
from lib.training.split import LabelledGraph
from tests.graphs import compress
from tests.training_loop import Training

OFFICIAL = Path(__file__).resolve().parents[3] / "shared" / "tpugraphs" / "official"
GRAPHS = {
    "unet3d": "default/train/unet3d",
    "unet_3d, default": "default/valid/unet_3d.4x4.bf16",
    "unet_3d, random": "random/valid/unet_3d.4x4.bf16",
}
COUNTS = ("half", "256", "64")
ACROSS = "others"
SCHEMA = {
    "graph": pl.String,
    "learned": pl.String,  # one of COUNTS, or ACROSS
    "method": pl.String,
    "seed": pl.Int64,
    "tau": pl.Float64,
    "error": pl.Float64,
}
Parts = tuple[list[CachedGraph], CachedGraph]  # learned from, and ranked
Method = Callable[[list[CachedGraph], CachedGraph, int], np.ndarray]


def part(graph: CachedGraph, rows: np.ndarray) -> CachedGraph:
    """A graph with some of its configurations alone."""
    kept = {"cells": graph.cells[rows], "runtime": graph.runtime[rows]}
    return replace(graph, **kept, original=np.arange(len(rows), dtype=np.int32))


def fold_of(train: list[CachedGraph], valid: list[CachedGraph], settings: Settings) -> Fold:
    """What to train on, and what to validate on."""
    prepare = input_of(settings).prepare
    sides = [
        [LabelledGraph(own.name, prepare(own, settings), own.runtime) for own in side]
        for side in (train, valid)
    ]
    return named(settings.fold)(*sides, settings)


def by_network(model: str, steps: int = 0, loss: str | None = None, **own: Any) -> Method:
    """Scores of a network with its official settings, but for how many steps it takes.

    A loss is set as a user would edit it, for ``tgraph`` has no such setting.
    """

    def scores(train: list[CachedGraph], held: CachedGraph, seed: int) -> np.ndarray:
        passes = -(-steps // len(train))
        given = {"epochs": passes, "validate_every": passes} if steps else {}
        given |= {"model": model, "seed": seed, **own}
        settings = settings_for("layout-xla-default", TPUGRAPHS, given)
        edited = patch.object(type(settings), "loss", loss) if loss else nullcontext()
        data = fold_of(train, [held], settings)
        with edited, tempfile.TemporaryDirectory() as folder:
            training = Training(data, 0, Path(folder) / "state", "bench")
            for _ in training.run():
                pass
        network = training.network.eval()
        size, prepared = settings.inference_configurations, data.valid[0].prepared
        rows = np.arange(len(held.runtime))
        return input_of(settings).scores(network, prepared, size, rows)

    return scores


def by_one_hots(fit: Callable[..., np.ndarray]) -> Method:
    """Scores of a regression on which layout each tensor of each node has."""

    def scores(train: list[CachedGraph], held: CachedGraph, seed: int) -> np.ndarray:
        (own,) = train
        layouts = [one.dictionary[one.cells].reshape(len(one.cells), -1) for one in (own, held)]
        met = [np.unique(column) for column in layouts[0].T]
        rows = [
            np.concatenate([one[:, [k]] == met[k] for k in range(len(met))], axis=1)
            for one in layouts
        ]
        logarithms = np.log(own.runtime)
        wanted = (logarithms - logarithms.mean()) / logarithms.std()
        return fit(*(one.astype(np.float32) for one in rows), wanted)

    return scores


def ridge(rows: np.ndarray, others: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Predictions of linear regression with a penalty of 1."""
    mean = rows.mean(axis=0)
    centred = (rows - mean).astype(np.float64)
    penalized = centred @ centred.T + np.eye(len(rows))
    return (others - mean) @ (centred.T @ np.linalg.solve(penalized, wanted))


def boosting(rows: np.ndarray, others: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Predictions of 300 boosted trees of depth 4."""
    import xgboost

    about = {"max_depth": 4, "eta": 0.1, "tree_method": "hist", "nthread": 1}
    trees = xgboost.train(about, xgboost.DMatrix(rows, wanted), 300)
    return trees.predict(xgboost.DMatrix(others)).astype(np.float64)


METHODS: dict[str, Method] = {
    "moved bytes": lambda train, held, seed: moved_bytes(held),
    "padded work": lambda train, held, seed: padded_work(held),
    "ridge": by_one_hots(ridge),
    "boosting": by_one_hots(boosting),
    "tgraph": by_network("tgraph", 300),
    "tgraph, longer": by_network("tgraph", 2100),
    "longer, physics": by_network("tgraph", 2100, physics=True),
    "longer, dropout": by_network("tgraph", 2100, dropout=0.2),
    "both": by_network("tgraph", 2100, physics=True, dropout=0.2),
    "longer, logistic": by_network("tgraph", 2100, "logistic"),
    "prices": by_network("prices"),
}
WITHIN_ONLY = ("ridge", "boosting")
SURE = ("moved bytes", "padded work")  # the same whatever is drawn


def parts_of(graphs: dict[str, CachedGraph], name: str, learned: str, seed: int) -> Parts:
    """What is learned from, and what is ranked."""
    graph = graphs[name]
    if learned == ACROSS:
        others = [one for one in graphs.values() if one.name != graph.name]
        return others, part(graph, np.arange(len(graph.cells)))
    count = len(graph.cells) // 2 if learned == "half" else int(learned)
    order = np.random.default_rng(seed).permutation(len(graph.cells))
    return [part(graph, np.sort(order[:count]))], part(graph, np.sort(order[count:]))


def error(places: np.ndarray, graph: CachedGraph) -> float:
    """The jackknife over a graph's choices: nodes whose layouts go together are one."""
    numbers = [np.unique(column, return_inverse=True)[1] for column in graph.cells.T]
    first = [np.unique(one, return_index=True)[1] for one in numbers]  # as they are met
    same = {np.argsort(np.argsort(f))[n].tobytes(): n for n, f in zip(numbers, first, strict=True)}
    taus = []
    for one in same.values():
        kept = one == np.bincount(one).argmax()
        if not kept.all():
            taus.append(kendall_tau(places[kept], graph.runtime[kept]))
    gaps = np.array(taus) - np.mean(taus)
    return float(np.sqrt((len(taus) - 1) / len(taus) * np.square(gaps).sum()))


def tables(results: pl.DataFrame) -> str:
    """Means over seeds, a table for either way to learn."""
    texts = []
    for learned in (*COUNTS, ACROSS):
        rows = []
        for method in METHODS:
            cells = [method]
            for name in GRAPHS:
                own = results.filter(method=method, graph=name, learned=learned)
                tau, error = own.select(pl.col("tau", "error").mean()).row(0)
                said = f"{tau:.3f} +- {error:.2f}" if len(own) else "-"
                cells.append(said)
            if set(cells[1:]) != {"-"}:
                rows.append(cells)
        texts.append(table(rows, [f"learned from {learned}", *GRAPHS]))
    return "\n\n".join(texts)


def read_graphs() -> dict[str, CachedGraph]:
    """The official graphs, pruned as stage 1 does, by their names here."""
    files = {name: OFFICIAL / "npz/layout/xla" / f"{path}.npz" for name, path in GRAPHS.items()}
    return {
        name: compress(read_layout(path), "train", 1, path=path) for name, path in files.items()
    }


def main() -> None:
    """Run what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    every_way = (*COUNTS, ACROSS)
    parser.add_argument("--learned", nargs="+", default=every_way, choices=every_way)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path(__file__).with_suffix(".parquet"))
    parser.add_argument("--print", action="store_true", help="print what is there, run nothing")
    args = parser.parse_args()
    torch.set_num_threads(1)
    empty = pl.DataFrame(schema=SCHEMA)
    results = pl.read_parquet(args.results) if args.results.exists() else empty
    if args.print:
        print(tables(results))
        return
    if not OFFICIAL.exists():
        print(f"{OFFICIAL} is not there: nothing to measure")
        return
    graphs = read_graphs()
    for name, graph in graphs.items():
        agree = repeated_ceiling(graph.repeats)
        print(
            f"{name}: {len(graph.cells)} distinct configurations, {len(graph.repeats)} of them "
            f"measured again; noise {noise_of(graph.repeats):.1e}, tau between both {agree}"
        )
    done = set(results.select("graph", "learned", "method", "seed").iter_rows())
    every = product(args.methods, range(args.seeds), GRAPHS, args.learned)
    for method, seed, name, learned in every:
        never = learned == ACROSS and (method in WITHIN_ONLY or (method in SURE and seed))
        if never or (name, learned, method, seed) in done:
            continue
        train, held = parts_of(graphs, name, learned, seed)
        scores = METHODS[method](train, held, seed)
        places = places_of(scores, held.layouts_set)
        tau = kendall_tau(places, held.runtime)
        line = (name, learned, method, seed, tau, error(places, held))
        print(f"{method}, {name}, learned from {learned}, seed {seed}: {tau:.3f}", flush=True)
        results = pl.concat([results, pl.DataFrame([line], SCHEMA, orient="row")])
        with atomic_file(args.results) as temporary:
            results.write_parquet(temporary)
    print(tables(results))


if __name__ == "__main__":
    main()
