"""Moves and states as numbers that a network can learn costs from.

What a move costs depends on how far apart in memory the elements are that are read one after the
other, on how long runs stay together, on sizes, on what the caches make of it
(:mod:`lib.layouts.locality`) and on what is computed on the way (:mod:`lib.layouts.chains`); not
on the names of dimensions. So the features say that, as logarithms to base 2 (divided, to lie
around 1), and the same program with its dimensions renamed has the same features.
"""

from __future__ import annotations

from math import log2, prod

import numpy as np

from lib.layouts.chains import FUNCTION_NAMES, Chains
from lib.layouts.found import REASONS
from lib.layouts.locality import LOCALITY_FEATURES, locality
from lib.layouts.orders import Order, Shape, common_run, squeezed, strides
from lib.layouts.program import Program
from lib.tpugraphs.opcodes import ID_OF_NAME

FEW = 8  # elements along a dimension: less than a vector register or a cache line holds
SCALE, BYTES_SCALE, RANK_SCALE = 8.0, 20.0, 4.0
GROUPS = (  # operations by what running against the grain does to them; others are elementwise
    ("reduce",),
    ("reduce-window", "select-and-scatter"),
    ("concatenate",),
    ("pad", "slice", "dynamic-slice", "dynamic-update-slice", "gather", "scatter", "reverse"),
    ("broadcast",),
    ("transpose",),
    ("reshape",),
    FUNCTION_NAMES,
    ("parameter",),
    ("constant", "iota"),
    ("dot", "convolution"),
)
GROUP_OF = {ID_OF_NAME[name]: place for place, names in enumerate(GROUPS) for name in names}
CHAIN_FEATURES = 7
FUNCTIONS_SCALE, MOST_COUNTED = 2.0, 4  # functions in a chain, users of a tensor
MOVE_BASICS, STATE_BASICS = 14, 6  # features before those of caches and chains
MOVE_FEATURES = MOVE_BASICS + LOCALITY_FEATURES + CHAIN_FEATURES + REASONS + 2 * (len(GROUPS) + 1)
STATE_FEATURES = STATE_BASICS + CHAIN_FEATURES + len(GROUPS) + 1


def move_features(
    chains: Chains, tensor: int, before: Order, after: Order, reason: int, reader: int
) -> list[float]:
    """Features of a move, ``MOVE_FEATURES`` numbers.

    Args:
        chains: of the program that it happens in.
        tensor: the node whose output moves.
        before, after: orders that differ in memory.
        reason: one of those of :mod:`lib.layouts.found`.
        reader: the node that it happens for.
    """
    program = chains.program
    shape = program.shapes[tensor]
    width = max(1, int(program.bytes[tensor] // prod(shape)))
    one, other = squeezed(before, shape), squeezed(after, shape)
    plain = squeezed(program.plain(tensor), shape)
    read, written = strides(before, shape), strides(after, shape)
    second = other[1] if len(other) > 1 else None
    return [
        _log(read[other[0]]),  # how far apart the elements are that are written in a row
        _log(written[one[0]]),  # ... and where those go that lie in a row
        _log(shape[other[0]]),
        _log(shape[one[0]]),
        _log(common_run(one, other, shape)),
        log2(max(1.0, program.bytes[tensor])) / BYTES_SCALE,
        float(one[0] != other[0]),
        float(shape[other[0]] < FEW),
        float(shape[one[0]] < FEW),
        float(one == plain),
        float(other == plain),
        len(other) / RANK_SCALE,
        _log(1 if second is None else shape[second]),
        _log(1 if second is None else read[second]),
        *locality(shape, before, one, other, width),
        *_chain_features(chains, tensor, reader),
        *_one_hot(reason, REASONS),
        *_one_hot(_group(program, tensor), len(GROUPS) + 1),
        *_one_hot(_group(program, reader), len(GROUPS) + 1),
    ]


def state_features(chains: Chains, node: int, before: Order, order: Order) -> list[float]:
    """Features of a state, ``STATE_FEATURES`` numbers.

    Args:
        chains: of the program that it happens in.
        node: the operation.
        before: for a reshape that moves data, the order of its operand.
        order: of the output; ``()`` for such a reshape.
    """
    program = chains.program
    shape = program.shapes[node]
    if not order:
        source = program.operands[node][0]
        shape, order, plain = program.shapes[source], before, program.plain(source)
        moved, off = 1.0, float(squeezed(order, shape) != squeezed(plain, shape))
    else:
        moved, off, plain = 0.0, 1.0, program.plain(node)
    return [
        moved,
        off,
        *_against_the_grain(order, plain, shape),
        log2(max(1.0, program.bytes[node])) / BYTES_SCALE,
        len(program.shapes[node]) / RANK_SCALE,
        *_chain_features(chains, node, node),
        *_one_hot(_group(program, node), len(GROUPS) + 1),
    ]


def _group(program: Program, node: int) -> int:
    return GROUP_OF.get(int(program.opcode[node]), len(GROUPS))


def _chain_features(chains: Chains, tensor: int, reader: int) -> list[float]:
    """What is computed before a tensor is written, and after it is read."""
    (functions, operations), (later, more) = chains.above(tensor), chains.below(reader)
    return [
        min(MOST_COUNTED, functions) / FUNCTIONS_SCALE,
        _log(1 + operations),
        min(MOST_COUNTED, later) / FUNCTIONS_SCALE,
        _log(1 + more),
        float(chains.elementwise(tensor)),
        float(chains.elementwise(reader)),
        min(MOST_COUNTED, len(chains.program.users[tensor])) / FUNCTIONS_SCALE,
    ]


def _against_the_grain(order: Order, plain: Order, shape: Shape) -> tuple[float, float]:
    """Size of the fastest dimension, and the stride of what would be it in the plain order."""
    own, usual = squeezed(order, shape), squeezed(plain, shape)
    if not own:
        return 0.0, 0.0
    return _log(shape[own[0]]), _log(strides(order, shape)[usual[0]])


def _log(count: int) -> float:
    return log2(max(1, count)) / SCALE


def _one_hot(value: int, count: int) -> list[float]:
    return [float(value == place) for place in range(count)]


def as_table(rows: list[list[float]], width: int) -> np.ndarray:
    """(rows, width) float32, also of no rows."""
    return np.array(rows, np.float32).reshape(len(rows), width)
