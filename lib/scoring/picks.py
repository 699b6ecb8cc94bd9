"""Costs and gains of a pick's layouts over the compiler's own choice, where the networks'
scores are sums of that."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from torch import nn

from lib.cache.graph import CachedGraph
from lib.cache.reader import Cache
from lib.compiler.graph import TensorGraph
from lib.files import tensor_file
from lib.models.common.build import network_for
from lib.models.common.input import Part, input_of
from lib.ranking.metrics import pick_of
from lib.ranking.truth import column_by_graph
from lib.settings import WEIGHTS_FILES, Settings
from lib.tpugraphs.opcodes import opcode_name

MOST_PARTS, LEAST = 4, 0.005  # of a pick, those that weigh most; of all, a share that shows


def picks(
    folder: Path, cache: Cache, settings: Settings, folds: Sequence[int], blended: pl.DataFrame
) -> dict[str, list[dict[str, Any]]]:
    """Return the largest parts of what each graph's pick scores above the compiler's own choice.

    Args:
        folder: of the results.
        cache, settings: of the collection.
        folds: whose networks are blended.
        blended: ``graph, config, score``, of the test split.

    Returns:
        By graph ``where``, an operation and its output's shape, ``what`` is done there under
        either of the two, and ``share``: of the sizes of all parts, negative if it is gained; the
        mean over networks. The first one is of all parts together. There are none where the pick
        is the compiler's own choice, or that is not known. Nothing at all is known where weights
        have been deleted.
    """
    paths = [folder / f"fold_{fold}" / WEIGHTS_FILES[settings.weights] for fold in folds]
    if not all(path.exists() for path in paths):
        return {}
    networks = [network_for(settings).eval() for _ in paths]
    for network, path in zip(networks, paths, strict=True):
        tensor_file.load_into(network, path, tensor_file.load(path)[0])
    scores = column_by_graph(blended, "score")
    return {
        name: parts_of(networks, graph, pick_of(of.to_numpy(), graph.compilers_own), settings)
        for name, of in sorted(scores.items())
        for graph in (cache.graph(name),)
    }


def parts_of(
    networks: Sequence[nn.Module], graph: CachedGraph, pick: int, settings: Settings
) -> list[dict[str, Any]]:
    """The same of one graph, whose pick is the configuration of this number in the source."""
    seen, place = input_of(settings), int(graph.original[pick])
    prepared = seen.prepare(graph, settings)
    by_network = [seen.parts(network, prepared, place) for network in networks]
    if not by_network[0]:
        return []
    costs = np.array([[part.cost for part in parts] for parts in by_network])
    sizes = np.abs(costs).sum(axis=1, keepdims=True)
    shares = (costs / np.where(sizes > 0, sizes, 1)).mean(axis=0)
    order = np.argsort(-np.abs(shares), kind="stable")[:MOST_PARTS]
    largest = order[np.abs(shares[order]) >= LEAST]
    tensors = TensorGraph.of(graph)
    together = {"where": "all", "what": f"{len(shares)} parts", "share": float(shares.sum())}
    return [together] + [
        {**_words(by_network[0][number], tensors), "share": float(shares[number])}
        for number in largest.tolist()
    ]


def _words(part: Part, tensors: TensorGraph) -> dict[str, str]:
    first, *others = (opcode_name(tensors.opcode[n]) for n in part.nodes)
    shape = ", ".join(map(str, tensors.shapes[part.nodes[0]]))
    return {"where": f"{first} [{shape}]", "what": " for ".join([part.what, *others])}
