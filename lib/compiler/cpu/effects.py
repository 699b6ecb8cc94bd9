"""Effects of configurations: layout copies, off-layout operations and repeated operations.

They name orders by their numbers in the program's order table (:mod:`lib.compiler.cpu.tables`).
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from lib.tpugraphs.opcodes import CONVOLUTION, DOT, RESHAPE


class Reason(IntEnum):
    """Reasons to copy a tensor. The value is the place of the reason's feature."""

    CONFIGURED = 0  # the configuration sets the layout in which the tensor is read
    DOT_OPERAND = 1  # a dot reads its operands in an order of its own
    CONVOLUTION_OPERAND = 2
    RESHAPE_OUTPUT = 3  # a reshape gives another order than is set or requested
    DOT_OUTPUT = 4
    CONVOLUTION_OUTPUT = 5
    TRANSPOSE = 6  # a transpose does more than rename dimensions
    READER = 7  # a reader works in another order
    REDUCTION_OPERAND = 8  # unused: networks were trained with its feature
    RESHAPE_OPERAND = 9


# Reasons to copy an operand of a configurable node to the order that its operation prefers, and its
# output to the configured order. All known configurable nodes are of these three opcodes, but no
# format requires that: another operation reads its operands like a node that is not configurable.
OPERAND_REASONS = {
    DOT: Reason.DOT_OPERAND,
    CONVOLUTION: Reason.CONVOLUTION_OPERAND,
    RESHAPE: Reason.RESHAPE_OPERAND,
}
OUTPUT_REASONS = {
    DOT: Reason.DOT_OUTPUT,
    CONVOLUTION: Reason.CONVOLUTION_OUTPUT,
    RESHAPE: Reason.RESHAPE_OUTPUT,
}


class LayoutCopy(NamedTuple):
    """A tensor that goes from one order to another, by a copy or while it is read.

    Attributes:
        tensor: the node whose output it is.
        before, after: numbers of orders.
        reason: the reason of the copy.
        reader: the node that the copy serves.
        path: the transposes and reshapes that it is read through. With a path, orders are those of
            the parts of its :class:`lib.compiler.cpu.views.View`.
    """

    tensor: int
    before: int
    after: int
    reason: Reason
    reader: int
    path: tuple[int, ...] = ()


class CopySite(NamedTuple):
    """A place where a tensor is copied; see :class:`LayoutCopy`."""

    tensor: int
    reason: Reason
    reader: int
    path: tuple[int, ...] = ()


class RepeatedOperation(NamedTuple):
    """A product or reduction that a library call computes more than once.

    Attributes:
        node: the operation.
        times: how often it is computed, more than 1.
    """

    node: int
    times: float
