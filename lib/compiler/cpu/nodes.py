"""Groups of operations, and scales of what is said of nodes."""

from __future__ import annotations

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


def group_of(graph: TensorGraph, node: int) -> int:
    """Which of ``GROUPS`` a node is of."""
    return GROUP_OF.get(int(graph.opcode[node]), len(OPERATIONS))
