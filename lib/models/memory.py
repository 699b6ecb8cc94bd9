"""How much memory TGraph takes on pruned graphs."""

from __future__ import annotations

FLOAT = 4  # bytes


def fused_step_bytes(cells: int, channels: int, blocks: int, itemsize: int) -> int:
    """Peak memory of a forward and backward pass of TGraph's blocks by the compiled loops.

    Kept of each block, a cell: the unit vectors and the gated ones (each half the channels), and
    its input (of the first block, the table's rows instead); on the way back two gradients. Memory
    is kept for the next step, whose blocks may be smaller by a fifth (``lib/native/memory.cpp``).

    Args:
        cells: nodes times configurations.
        channels, blocks: of the network.
        itemsize: bytes of a number that is kept, 4 or 2.
    """
    return cells * channels * itemsize * (2 * blocks + 1) * 5 // 4


def eager_step_bytes(cells: int, channels: int, blocks: int) -> int:
    """The same of the blocks on torch alone: about eight tensors a block of all channels.

    Matrix products in bfloat16 spare next to nothing of it.
    """
    return FLOAT * cells * channels * 8 * blocks


def fused_scoring_bytes(cells: int, channels: int, itemsize: int) -> int:
    """Peak memory of scoring a batch by the compiled loops, beside what its pool shares."""
    return cells * channels * itemsize * 5 // 4


def eager_scoring_bytes(cells: int, channels: int) -> int:
    """Peak memory of scoring a batch on torch alone."""
    return FLOAT * cells * channels * 13 // 2
