"""Pruned graphs: what a network reads of a batch of configurations, and scores of all of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import torch
from torch import nn

from lib.cache.codec import DIGITS, TENSORS, decode_layouts
from lib.cache.graph import CachedGraph, neighbours
from lib.cache.prune import without_effects
from lib.compiler.graph import TensorGraph
from lib.compiler.tpu import PRODUCT_FEATURES, ConfiguredNodes, product_features
from lib.models.common.chunks import batched_scores, device_of, scores_of
from lib.models.common.input import Input
from lib.models.common.rows import LARGEST_DIGIT, NUMERIC, GraphBatch, Program

POOL_BYTES = 1 << 30  # of what groupings share; more configurations are grouped in several pools


@dataclass(frozen=True, eq=False)
class GraphTensors:
    """A graph whose configurations are batched; :meth:`batch` takes some of them.

    Nodes are renumbered: the k configurable ones first, in their order, then the other nodes.
    """

    cells: np.ndarray  # (c, k) as in the cache, possibly a memory map
    program: Program
    physics: ConfiguredNodes | None = None  # if batches have physical columns

    @property
    def features(self) -> torch.Tensor:
        """Features of the nodes, (n, 134)."""
        return self.program.features

    def batch(self, rows: np.ndarray) -> GraphBatch:
        """The graph under the configurations at ``rows`` of the cache's cells, (b,) integers."""
        cells = np.asarray(self.cells[rows])  # (b, k); reads these rows only
        nodes, configurable, size = len(self.features), cells.shape[1], len(self.program.digits) - 1
        fixed = nodes - configurable
        keys = cells.T.astype(np.int64, order="C") + size * np.arange(configurable)[:, None]
        pairs, index = _distinct(keys, size * configurable)  # sorted: node by node
        changed, codes = pairs // size, pairs % size
        physics = None
        if self.physics is not None:
            layouts = self.program.digits.numpy()[codes].reshape(-1, TENSORS, DIGITS) - 1
            columns = product_features(self.physics, changed, layouts)
            physics = torch.from_numpy(np.pad(columns, ((fixed, 0), (0, 0))))
        return GraphBatch(
            program=self.program,
            nodes=torch.from_numpy(np.concatenate([np.arange(configurable, nodes), changed])),
            codes=torch.from_numpy(np.concatenate([np.full(fixed, size), codes])),
            cells=torch.from_numpy(index + fixed),
            physics=physics,
        )


def _distinct(keys: np.ndarray, bound: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct keys, ascending, and the place of each key among them.

    Keys are from 0 to below the bound. Where that is small, they need not be sorted.
    """
    if bound > 16 * keys.size:
        found, index = np.unique(keys, return_inverse=True)
        return found, index.reshape(keys.shape)
    occurs = np.zeros(bound, bool)
    occurs[keys] = True
    return np.flatnonzero(occurs), (np.cumsum(occurs) - 1)[keys]


def _order(graph: CachedGraph) -> np.ndarray:
    """The nodes as they are renumbered."""
    is_other = np.ones(len(graph.node_opcode), bool)
    is_other[graph.config_nodes] = False
    return np.concatenate([graph.config_nodes, np.flatnonzero(is_other)])


def places_of(graph: CachedGraph) -> np.ndarray:
    """Each node's number in a batch, (n,)."""
    return np.argsort(_order(graph))


def program_alone(graph: CachedGraph) -> GraphBatch:
    """A cached graph under the one configuration that sets no layout."""
    unset = np.zeros((1, len(graph.config_nodes)), np.uint8)
    dictionary = np.zeros((1, TENSORS), np.int32)  # code 0: six times -1
    return graph_tensors(replace(graph, cells=unset, dictionary=dictionary)).batch(np.arange(1))


def graph_tensors(graph: CachedGraph, physics: bool = False) -> GraphTensors:
    """Prepare a cached graph for batching."""
    order = _order(graph)
    sources, pointers = neighbours(len(order), np.argsort(order)[graph.edges])
    features = np.asarray(graph.node_feat)[order]
    digits = decode_layouts(graph.dictionary).astype(np.int64) + 1
    program = Program(
        features=torch.from_numpy(features[:, :NUMERIC].copy()),
        opcode=torch.from_numpy(graph.node_opcode[order].astype(np.int64)),
        layout=torch.from_numpy(
            np.clip(features[:, NUMERIC:], -1, LARGEST_DIGIT).astype(np.int64) + 1
        ),
        digits=torch.from_numpy(np.pad(digits, ((0, 1), (0, 0)))),
        sources=torch.from_numpy(sources),
        pointers=torch.from_numpy(pointers),
    )
    placed = ConfiguredNodes(TensorGraph.of(graph)) if physics else None
    return GraphTensors(graph.cells, program, placed)


def score_in_batches(
    network: nn.Module, graph: GraphTensors, order: np.ndarray, size: int
) -> np.ndarray:
    """Scores of every configuration of a graph, (c,) float64 in the order of the cache.

    A score depends on the batch it is computed in, because configurations attend to each other:
    neighbours in ``order``, a (c,) permutation, share one. Batches have at most ``size``
    configurations and differ by one at most, so that none is scored among a few left-overs.
    """
    scores = np.empty(len(order), np.float64)
    scores[order] = batched_scores(network, graph, size, order, evenly=True)
    return scores


def score_groupings(
    network: nn.Module, graph: GraphTensors, orders: np.ndarray, size: int
) -> np.ndarray:
    """:func:`score_in_batches` for (p, c) orders, (p, c), at a fraction of the work of each by
    itself.

    What does not depend on which configurations share a batch is computed once (a network offers
    it as ``share`` and ``score_group``). It is kept in memory, so that only as many configurations
    as fit in ``POOL_BYTES`` are grouped among themselves: a graph of more is dealt to pools by the
    first order, and the other orders are followed within each pool.
    """
    if len(orders) == 1 or not getattr(network, "shares", lambda: False)():
        return np.stack([score_in_batches(network, graph, order, size) for order in orders])
    scores = np.empty(orders.shape, np.float64)
    fits = max(size, POOL_BYTES // network.bytes_shared(len(graph.features)))  # type: ignore[operator]
    places = np.argsort(orders, axis=1)  # where each configuration is in each order
    for pool in np.array_split(orders[0], -(-orders.shape[1] // fits)):
        scores[:, pool] = _pool_scores(network, graph.batch(pool), places[:, pool], size)
    return scores


@torch.inference_mode()
def _pool_scores(
    network: nn.Module, batch: GraphBatch, places: np.ndarray, size: int
) -> np.ndarray:
    """Scores of the configurations of one pool in the order of each of (p, b) places, (p, b)."""
    device, scores = device_of(network), np.empty(places.shape)
    shared = network.share(batch.to(device))  # type: ignore[operator]

    def score(group: np.ndarray) -> torch.Tensor:
        places = torch.from_numpy(group).to(device, non_blocking=True)
        return network.score_group(shared, places)  # type: ignore[operator]

    for found, place in zip(scores, places, strict=True):
        order = np.argsort(place)
        found[order] = scores_of(score, order, size, evenly=True)
    return scores


INPUT = Input(
    prepare=lambda graph, settings: graph_tensors(
        without_effects(graph, settings.hops), settings.physics
    ),
    scores=partial(batched_scores, evenly=True),
    groupings=score_groupings,
    takes_less="lower --configurations, --inference-configurations or --channels",
    widths=lambda settings: {"physics": len(PRODUCT_FEATURES) * settings.physics},
)
