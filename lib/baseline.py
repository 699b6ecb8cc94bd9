"""The ranking that needs no learning, which every learned one is shown beside.

"Bytes of constrained tensors whose minor-most dimension moved": for each layout that a
configuration sets, if the dimension that varies fastest is another than in the program as it
stands, the tensor's bytes count, since reading or writing it against the grain costs a pass
over it. More bytes, slower. On unseen programs it ranks better than the published networks.
"""

from __future__ import annotations

import numpy as np

from lib.cache.codec import decode_layouts
from lib.cache.graph import CachedGraph
from lib.cache.kernel import CachedKernel
from lib.tpugraphs.encoding import FEATURE_NAMES

RANK_COLUMNS = slice(21, 27)  # shape_dimensions_0..5 (FORMAT.md, section 4)
PRODUCT_COLUMN = FEATURE_NAMES.index("shape_dimensions_product")
LAYOUT_COLUMN = FEATURE_NAMES.index("layout_minor_to_major_0")
OUTPUT_TILE_COLUMN = 15  # of a tile configuration: product of output_bounds (section 7)
TYPE_BYTES = {  # element type: bytes; types without a size (tuple, token ...) count nothing
    "pred": 1, "s8": 1, "u8": 1, "s16": 2, "u16": 2, "f16": 2, "bf16": 2, "s32": 4, "u32": 4,
    "f32": 4, "s64": 8, "u64": 8, "f64": 8, "c64": 8, "c128": 16,
}  # fmt: skip


def moved_bytes(graph: CachedGraph) -> np.ndarray:
    """The baseline's score of each distinct configuration, (c,) float64; lower means faster."""
    digits = decode_layouts(graph.dictionary).reshape(-1, 3, 6)  # (d, tensor, digit)
    tensors = slot_tensors(graph)  # (k, 3) nodes, -1 where unknown
    known = tensors >= 0
    size = np.where(known, tensor_bytes(graph.node_feat)[tensors], 0.0)
    minor = np.where(known, graph.node_feat[tensors, LAYOUT_COLUMN], -1)  # (k, 3)
    chosen = digits[:, :, 0]  # (d, 3), -1 where not constrained
    cost = ((chosen[None] >= 0) & (chosen[None] != minor[:, None])) * size[:, None]  # (k, d, 3)
    table = cost.sum(-1)  # (k, d)
    scores = np.zeros(len(graph.cells))
    for place, costs in enumerate(table):  # one column at a time: c may be 100,000
        scores += costs[graph.cells[:, place]]
    return scores


def output_tile(kernel: CachedKernel) -> np.ndarray:
    """ "The largest output tile first", (c,) float64; lower means faster.

    The tile baseline: the fewer tiles, the less is fetched twice. Configurations without output
    bounds are all alike.
    """
    return -kernel.config_feat[:, OUTPUT_TILE_COLUMN].astype(np.float64)


def tensor_bytes(node_feat: np.ndarray) -> np.ndarray:
    """Bytes of each node's output, (n,) float64."""
    width = np.zeros(len(node_feat))
    for name, size in TYPE_BYTES.items():
        width += size * node_feat[:, FEATURE_NAMES.index(f"shape_element_type_is_{name}")]
    return width * node_feat[:, PRODUCT_COLUMN]


def slot_tensors(graph: CachedGraph) -> np.ndarray:
    """Which node's output each layout of each configurable node is about, (k, 3) int64.

    The first layout is the node's own output, the others its operands. Edges do not say which
    operand is which: they come in the order of instruction ids, which is that of the program's
    text, so the first one is taken as the input and the second as the kernel, unless ranks rule
    that out. An operation whose two operands are one tensor has one edge for both.
    """
    ranks = (graph.node_feat[:, RANK_COLUMNS] > 0).sum(axis=1)
    longest = _digits_set(graph)
    found = np.full((len(graph.config_nodes), 3), -1, np.int64)
    users = graph.edges[:, 0]
    for place, node in enumerate(graph.config_nodes):
        operands = list(graph.edges[users == node, 1])
        found[place, 0] = node
        if len(operands) == 2 and not _fits(ranks, operands, longest[place]):
            operands.reverse()
        for slot, operand in enumerate(operands[:2], start=1):
            found[place, slot] = operand
        if len(operands) == 1 and longest[place, 2]:
            found[place, 2] = operands[0]
    return found


def _digits_set(graph: CachedGraph) -> np.ndarray:
    """The most digits that any configuration sets in each layout of each node, (k, 3)."""
    set_digits = (decode_layouts(graph.dictionary).reshape(-1, 3, 6) >= 0).sum(-1)  # (d, 3)
    columns = (np.unique(graph.cells[:, k]) for k in range(graph.cells.shape[1]))
    return np.array([set_digits[column].max(axis=0) for column in columns])


def _fits(ranks: np.ndarray, operands: list[int], longest: np.ndarray) -> bool:
    return bool(ranks[operands[0]] >= longest[1] and ranks[operands[1]] >= longest[2])
