"""What the layouts of a pick cost and gain, where the networks' scores are sums of that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lib.cache.graph import CachedGraph
from lib.cache.reader import Cache
from lib.compiler.graph import TensorGraph
from lib.inputs.input import Part, input_of
from lib.ranking.truth import column_by_graph
from lib.scoring.trained import Ensemble, load_networks
from lib.settings import Settings
from lib.tpugraphs.opcodes import NAME_OF_ID

MOST_PARTS = 4  # of a pick, those that weigh most


def picks(
    folder: Path, cache: Cache, settings: Settings, blended: pl.DataFrame
) -> dict[str, list[dict[str, Any]]]:
    """Of each graph the largest parts of the score of what was predicted fastest.

    Args:
        folder: of the results, with the folds' networks.
        cache, settings: of the collection.
        blended: ``graph, config, score``, of the test split.

    Returns:
        By graph ``where``, an operation and its output's shape, ``what`` is done there, and
        ``share``: of the sizes of all parts, negative if it is gained over the compiler's own
        layouts; the mean over networks. The first one is of all parts together. There are none
        where the compiler does what it would do by itself.
    """
    chosen = {"weights": settings.weights, "best_folds": settings.best_folds}
    ensemble = load_networks(folder, type(settings), chosen)
    scores = column_by_graph(blended, "score")
    return {
        name: _parts_of(ensemble, cache.graph(name), int(np.argmin(scores[name].to_numpy())))
        for name in sorted(scores)
    }


def _parts_of(ensemble: Ensemble, graph: CachedGraph, pick: int) -> list[dict[str, Any]]:
    seen, place = input_of(ensemble.settings), int(graph.original[pick])
    prepared = seen.prepare(graph, ensemble.settings)
    by_network = [seen.parts(network, prepared, place) for network in ensemble.networks.values()]
    if not by_network[0]:
        return []
    costs = np.array([[part.cost for part in parts] for parts in by_network])
    sizes = np.abs(costs).sum(axis=1, keepdims=True)
    shares = (costs / np.where(sizes > 0, sizes, 1)).mean(axis=0)
    largest = np.argsort(-np.abs(shares), kind="stable")[:MOST_PARTS]
    tensors = TensorGraph.of(graph)
    together = {"where": "all", "what": f"{len(shares)} parts", "share": float(shares.sum())}
    return [together] + [
        {**_words(by_network[0][number], tensors), "share": float(shares[number])}
        for number in largest.tolist()
    ]


def _words(part: Part, tensors: TensorGraph) -> dict[str, str]:
    first, *others = (NAME_OF_ID.get(int(tensors.opcode[n]), "unknown") for n in part.nodes)
    shape = ", ".join(map(str, tensors.shapes[part.nodes[0]]))
    return {"where": f"{first} [{shape}]", "what": " for ".join([part.what, *others])}
