"""What configurations make a compiler do: moves and states, numbered as they are met.

* A *move*: a tensor is brought from one order to another, by a copy, or while it is read.
* A *state*: an operation runs on a tensor in another order than the program's own, or a reshape
  moves data.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lib.tpugraphs.opcodes import CONVOLUTION, DOT, RESHAPE

NONE = -1  # no order: the configuration, or the program, leaves it open

# Why a tensor is moved.
ASKED, DOT_WANTS, CONVOLUTION_WANTS, RESHAPED, DOT_GIVES, CONVOLUTION_GIVES, *_ = range(10)
TRANSPOSED, READ, REDUCED, RESHAPE_WANTS = range(6, 10)
REASONS = 10
WANTS = {DOT: DOT_WANTS, CONVOLUTION: CONVOLUTION_WANTS, RESHAPE: RESHAPE_WANTS}  # of operands
GIVES = {DOT: DOT_GIVES, CONVOLUTION: CONVOLUTION_GIVES, RESHAPE: RESHAPED}  # of outputs


def wants(opcode: int) -> int:
    """Why an operand of a configurable node is brought to the order that its operation wants.

    All configurable nodes known are convolutions, dots and reshapes, but no format says that they
    must be. Another operation reads its operands like any that is not configured.
    """
    return WANTS.get(opcode, READ)


def gives(opcode: int) -> int:
    """Why the output of a configurable node is brought to the order that is asked of it."""
    return GIVES.get(opcode, ASKED)


@dataclass(frozen=True)
class Found:
    """Moves and states of some configurations.

    Attributes:
        moves: (m, 2) int64, rows [configuration, move's number].
        states: (s, 2) int64, rows [configuration, state's number].
    """

    moves: np.ndarray
    states: np.ndarray


@dataclass
class Numbered:
    """Things that are numbered in the order of their first appearance."""

    items: list[tuple] = field(default_factory=list)
    numbers: dict[tuple, int] = field(default_factory=dict)

    def number(self, item: tuple) -> int:
        """The item's number, a new one if it is new."""
        if item not in self.numbers:
            self.numbers[item] = len(self.items)
            self.items.append(item)
        return self.numbers[item]
