"""The rankings that need no learning, which every learned one is shown beside.

On CPUs, "bytes of constrained tensors whose minor-most dimension moved": for each layout that a
configuration sets, if the dimension that varies fastest is another than in the program as it
stands, the tensor's bytes count, since reading or writing it out of order costs a pass
over it. More bytes, slower. On unseen programs it ranks better than the published networks.

On TPUs that says next to nothing. There it is "work of products in padded lanes": for each product,
its multiply-adds times the logarithm of how much further a layout pads the minor-most dimension of
its output than the program does (:mod:`lib.compiler.tpu`).
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
    """The baseline's score of each distinct configuration, (c,) float64; lower means faster.

    Which tensor a layout constrains, :func:`lib.compiler.operands.constrained_tensors` says.
    """
    tensors = TensorGraph.of(graph)
    chosen = decode_layouts(graph.dictionary).reshape(-1, TENSORS, DIGITS)[..., 0]  # (d, 3)
    scores = np.zeros(len(graph.cells))
    for place, node in enumerate(graph.config_nodes.tolist()):
        costs = np.zeros(len(chosen))
        for role, tensor in enumerate(constrained_tensors(tensors, node).tensors):
            if tensor >= 0 and tensors.rank(tensor):
                fastest = tensors.plain[tensor][0]
                moved = (chosen[:, role] >= 0) & (chosen[:, role] != fastest)
                costs += moved * tensors.bytes[tensor]
        scores += costs[graph.cells[:, place]]  # one column at a time: c may be 100,000
    return scores


def padded_work(graph: CachedGraph) -> np.ndarray:
    """The score of each distinct configuration on a TPU, (c,) float64; lower means faster.

    A share of the work of all configurable products: 0.1 is a tenth of it done e times as slowly.
    """
    nodes = ConfiguredNodes.of(TensorGraph.of(graph))
    layouts = decode_layouts(graph.dictionary).reshape(-1, TENSORS, DIGITS)
    share = nodes.work / max(1.0, nodes.work.sum())
    scores = np.zeros(len(graph.cells))
    for place in np.flatnonzero(share).tolist():
        costs = share[place] * output_padding(nodes, np.full(len(layouts), place), layouts)
        scores += costs[graph.cells[:, place]]
    return scores


# By the hardware that layouts are of.
LAYOUT_BASELINES = {"cpu": moved_bytes, "tpu": padded_work}


def output_tile(kernel: CachedKernel) -> np.ndarray:
    """ "The largest output tile first", (c,) float64; lower means faster.

    The tile baseline: the fewer tiles, the less is fetched twice. Configurations without output
    bounds are all alike.
    """
    return -kernel.config_feat[:, OUTPUT_TILE_COLUMN].astype(np.float64)
