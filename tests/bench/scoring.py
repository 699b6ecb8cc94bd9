"""How many configurations a second are scored on one core, resolving included: `tgraph-plus`, and
`tgraph` beside it.

    taskset -c 0 .venv/bin/python -m tests.bench.scoring [--count 1000]

Graphs are bundled programs of 250 to 350 nodes, and eleven of them side by side, about 3,000 nodes.
Configurations are drawn in two ways: site by site from those that were measured, as a genetic
search does, and every layout anew, as a random search does. Of either model it is one network with
fresh weights: speed does not depend on them. Both read the part of a graph that pruning keeps;
for `tgraph-plus` it is worked out before what configurations make the compiler do. `tgraph` has the
paper's width, and scores each configuration in one grouping; stage 3 averages over ten. Figures are
medians over rounds, of a core's CPU time.
"""

from __future__ import annotations

import argparse
import statistics
import time
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import torch

from lib.cache.codec import DIGITS, TENSORS, build_dictionary, decode_layouts, smallest_type
from lib.cache.graph import CachedGraph
from lib.cache.prune import ALL, pruned
from lib.cache.reader import Cache
from lib.compiler.cpu.resolved import effects_of
from lib.files.terminal import table
from lib.models.common.build import network_for
from lib.models.common.input import input_of
from lib.models.common.settings import LayoutCollection
from lib.settings import settings_for
from lib.settings.resolved import BUNDLED
from lib.tpugraphs.dataset import read_dataset
from lib.tpugraphs.drawing import random_configuration
from tests.bench.quality import cache_of

COLLECTION, NODES, TOGETHER = "layout-xla-random", (250, 350), 11
FIRST, RIVAL = "tgraph-plus", "tgraph"
MODELS = {FIRST: {"hops": ALL}, RIVAL: {"channels": 256}}  # effects are of the whole graph


def crossed(graph: CachedGraph, count: int, rng: np.random.Generator) -> CachedGraph:
    """Configurations whose sites are drawn from those that were measured."""
    cells = np.asarray(graph.cells)
    rows = rng.integers(0, len(cells), (count, cells.shape[1]))
    return configured(graph, graph.dictionary, cells[rows, np.arange(cells.shape[1])])


def redrawn(graph: CachedGraph, count: int, rng: np.random.Generator) -> CachedGraph:
    """Configurations of which every layout is drawn anew, by the collector's random search."""
    digits = decode_layouts(graph.dictionary).reshape(-1, TENSORS, DIGITS)[np.asarray(graph.cells)]
    ranks = [tuple(map(int, own)) for own in (digits >= 0).sum(-1).max(0)]  # a site's tensors
    drawn = np.stack([random_configuration(ranks, rng) for _ in range(count)])
    flat = drawn.reshape(count, len(ranks), TENSORS * DIGITS)
    return configured(graph, *build_dictionary("", [flat], count, len(ranks)))


def configured(graph: CachedGraph, dictionary: np.ndarray, cells: np.ndarray) -> CachedGraph:
    """A graph under other configurations, which nobody measured."""
    return replace(
        graph,
        dictionary=np.asarray(dictionary, np.int32),
        cells=cells.astype(smallest_type(len(dictionary))),
        runtime=np.zeros(len(cells), np.int64),
        original=np.arange(len(cells), dtype=np.int32),
    )


WAYS = {"sites as measured": crossed, "every layout anew": redrawn}


def side_by_side(graphs: list[CachedGraph]) -> CachedGraph:
    """One graph of several, with as many configurations as the one that has fewest."""
    count = min(len(one.cells) for one in graphs)
    starts = np.cumsum([0, *(len(one.node_opcode) for one in graphs)])
    words = np.cumsum([0, *(len(one.dictionary) for one in graphs)])
    shifted = list(zip(graphs, starts.tolist(), words.tolist(), strict=False))
    cells = [np.asarray(one.cells[:count]).astype(np.int64) + word for one, _, word in shifted]
    return replace(
        graphs[0],
        node_feat=np.concatenate([one.node_feat for one in graphs]),
        node_opcode=np.concatenate([one.node_opcode for one in graphs]),
        edges=np.concatenate([np.asarray(one.edges) + start for one, start, _ in shifted]),
        node_splits=np.array([0, starts[-1]], np.int32),
        config_nodes=np.concatenate([one.config_nodes + start for one, start, _ in shifted]),
        dictionary=np.concatenate([one.dictionary for one in graphs]),
        cells=np.concatenate(cells, axis=1).astype(smallest_type(int(words[-1]))),
        runtime=np.asarray(graphs[0].runtime[:count]),
        original=np.arange(count, dtype=np.int32),
    )


def cases(cache: Cache, names: list[str]) -> dict[str, list[CachedGraph]]:
    """What is scored, by what it is called."""
    graphs = [cache.graph(name) for name in names]
    large = side_by_side([graphs[k % len(graphs)] for k in range(TOGETHER)])
    return {"about 300": graphs, "about 3,000": [large]}


def rate(settings: LayoutCollection, graphs: list[CachedGraph]) -> float:
    """Configurations a second, from graphs to scores."""
    seen, network = input_of(settings), network_for(settings).eval()
    started = time.process_time()
    for graph in graphs:
        if settings.model == FIRST:
            graph = pruned(replace(graph, **effects_of(graph)), 1)
        ready = seen.prepare(graph, settings)
        rows = np.arange(len(graph.cells))
        seen.scores(network, ready, settings.inference_configurations, rows)
    return sum(len(one.cells) for one in graphs) / (time.process_time() - started)


def main() -> None:
    """Print a row a case."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--count", type=int, default=1000, help="configurations of a graph")
    parser.add_argument("--graphs", type=int, default=5, help="graphs of about 300 nodes")
    parser.add_argument("--rounds", type=int, default=5, help="in which the models take turns")
    parser.add_argument("--outputs", type=Path, default=Path("outputs/quality"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    dataset = read_dataset(BUNDLED)
    settings = {m: settings_for(COLLECTION, dataset, {"model": m, **o}) for m, o in MODELS.items()}
    caches = {model: cache_of(own, BUNDLED, args.outputs) for model, own in settings.items()}
    nodes = {row["graph"]: row["nodes"] for row in caches[FIRST].table.iter_rows(named=True)}
    middle = [n for n in caches[FIRST].names("train", "valid") if NODES[0] <= nodes[n] <= NODES[1]]
    graphs = {model: cases(own, middle[: args.graphs]) for model, own in caches.items()}
    rows = []
    for (size, own), (way, draw) in product(graphs[FIRST].items(), WAYS.items()):
        drawn = [draw(one, args.count, np.random.default_rng(0)) for one in own]
        pairs = zip(drawn, graphs[RIVAL][size], strict=True)
        pruned = [configured(two, one.dictionary, one.cells) for one, two in pairs]
        contestants = {FIRST: drawn, RIVAL: pruned}
        found = {model: [] for model in contestants}
        for _, model in product(range(args.rounds), contestants):  # in turns
            found[model].append(rate(settings[model], contestants[model]))
        rates = [statistics.median(each) for each in found.values()]
        rows.append([size, way, *(f"{one:,.0f}" for one in rates), f"{rates[0] / rates[1]:.1f}"])
    print(table(rows, ["nodes", "configurations", FIRST, RIVAL, "times as fast"]))


if __name__ == "__main__":
    main()
