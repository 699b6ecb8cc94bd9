"""What no configuration changes about the nodes of a program, as numbers for a network."""

from __future__ import annotations

import numpy as np

from lib.compiler.cpu.chains import FUNCTION_NAMES
from lib.compiler.graph import TensorGraph
from lib.tpugraphs.opcodes import ID_OF_NAME

BYTES_SCALE, RANK_SCALE = 20.0, 4.0
FUNCTIONS_SCALE, MOST_COUNTED = 2.0, 4  # functions in a chain, users of a tensor
OPERATIONS = {  # opcodes by what working in another order does to them
    "reduction": ("reduce",),
    "window": ("reduce-window", "select-and-scatter"),
    "concatenation": ("concatenate",),
    "slicing": (
        "pad",
        "slice",
        "dynamic-slice",
        "dynamic-update-slice",
        "gather",
        "scatter",
        "reverse",
    ),
    "broadcast": ("broadcast",),
    "transpose": ("transpose",),
    "reshape": ("reshape",),
    "function": FUNCTION_NAMES,
    "parameter": ("parameter",),
    "constant": ("constant", "iota"),
    "product": ("dot", "convolution"),
}
GROUPS = (*OPERATIONS, "other")  # all other operations are elementwise
GROUP_OF = {
    ID_OF_NAME[name]: place for place, group in enumerate(OPERATIONS) for name in OPERATIONS[group]
}
OTHERS = ("bytes", "rank", "users", "configurable")
NODE_FEATURES = (*(f"opcode.{group}" for group in GROUPS), *OTHERS)


def group_of(graph: TensorGraph, node: int) -> int:
    """Which of ``GROUPS`` a node is of."""
    return GROUP_OF.get(int(graph.opcode[node]), len(OPERATIONS))


def node_features(graph: TensorGraph) -> np.ndarray:
    """``NODE_FEATURES`` of each node, (n, features) float32."""
    nodes = range(len(graph.opcode))
    groups = np.zeros((len(nodes), len(GROUPS)), np.float32)
    groups[nodes, [group_of(graph, node) for node in nodes]] = 1
    configurable = np.zeros(len(nodes))
    configurable[graph.configurable] = 1
    numbers = [
        np.log2(np.maximum(1.0, graph.bytes)) / BYTES_SCALE,
        np.array([graph.rank(node) for node in nodes]) / RANK_SCALE,
        np.array([min(MOST_COUNTED, len(users)) for users in graph.users]) / FUNCTIONS_SCALE,
        configurable,
    ]
    return np.column_stack([groups, *numbers]).astype(np.float32)
