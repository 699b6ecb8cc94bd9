"""Baselines: rankings that need no learning, to compare learned ones with.

On CPUs the score is "bytes of constrained tensors whose minor-most dimension moved". If a
configured layout has another fastest dimension than the program itself, the tensor's bytes count,
since to read or write it out of order costs a pass over it. More bytes mean slower. On unseen
programs this ranks better than the published networks.

On TPUs this score says next to nothing. There it is "work of products in padded lanes": the
multiply-adds of each product times the logarithm of how much further a layout pads the minor-most
dimension of its output than the program does (:mod:`lib.compiler.tpu`).
"""

from __future__ import annotations

import numpy as np

from lib.cache.codec import DIGITS, TENSORS, decode_layouts
from lib.cache.graph import CachedGraph
from lib.cache.kernel import CachedKernel
from lib.compiler.graph import TensorGraph
from lib.compiler.operands import constrained_tensors
from lib.compiler.tpu import ConfiguredNodes, output_padding
from lib.tpugraphs.encoding import TILE_FEATURE_NAMES

OUTPUT_TILE_COLUMN = TILE_FEATURE_NAMES.index("output_bounds_product")


def moved_bytes(graph: CachedGraph) -> np.ndarray:
    """Return the score of each distinct configuration on a CPU, (c,) float64; lower means faster.

    :func:`lib.compiler.operands.constrained_tensors` finds the tensor that a layout constrains.
    """
    tensors = TensorGraph.of(graph)
    minor = decode_layouts(graph.dictionary).reshape(-1, TENSORS, DIGITS)[..., 0]  # (d, 3)
    scores = np.zeros(len(graph.cells))
    for place, node in enumerate(graph.config_nodes.tolist()):
        costs = np.zeros(len(minor))
        for role, tensor in enumerate(constrained_tensors(tensors, node).tensors):
            if tensor >= 0 and tensors.rank(tensor):
                fastest = tensors.plain[tensor][0]
                moved = (minor[:, role] >= 0) & (minor[:, role] != fastest)
                costs += moved * tensors.bytes[tensor]
        scores += costs[graph.cells[:, place]]  # one column at a time: c may be 100,000
    return scores


def padded_work(graph: CachedGraph) -> np.ndarray:
    """Return the score of each distinct configuration on a TPU, (c,) float64; lower means faster.

    It is relative to the work of all configurable products: 0.1 means that a tenth of the work is
    e times as slow.
    """
    nodes = ConfiguredNodes(TensorGraph.of(graph))
    layouts = decode_layouts(graph.dictionary).reshape(-1, TENSORS, DIGITS)
    share = nodes.work / max(1.0, nodes.work.sum())
    scores = np.zeros(len(graph.cells))
    for place in np.flatnonzero(share).tolist():
        costs = share[place] * output_padding(nodes, np.full(len(layouts), place), layouts)
        scores += costs[graph.cells[:, place]]
    return scores


# Baselines of layouts by hardware.
LAYOUT_BASELINES = {"cpu": moved_bytes, "tpu": padded_work}


def output_tile(kernel: CachedKernel) -> np.ndarray:
    """Return the score "the largest output tile first", (c,) float64; lower means faster.

    It is the tile baseline: fewer tiles fetch less data twice. Configurations without output bounds
    have equal scores.
    """
    return -kernel.config_feat[:, OUTPUT_TILE_COLUMN].astype(np.float64)
