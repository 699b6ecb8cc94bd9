"""How much memory networks take: attention on whole graphs, and TGraph on pruned ones."""

from __future__ import annotations

FLOAT = 4  # bytes


def attention_bytes(
    nodes: int, edges: int, configurations: int, channels: int, layers: int, heads: int
) -> int:
    """Peak memory of a forward and backward pass of graph attention over n nodes.

    Kept of each layer, a cell: its input, its projection, ELU's input and result (4 channels); an
    attended edge: logits, LeakyReLU, exponential, sum and weight (5 heads). On top of that come
    the gradients of one layer and what one layer gathers and weighs (2 channels an edge).

    Args:
        nodes, edges: of the part that gradients flow through.
        configurations: b.
        channels, layers, heads: of the network.
    """
    attended = 2 * edges + nodes
    kept = layers * (4 * nodes * channels + 5 * attended * heads)
    passing = 3 * nodes * channels + 2 * attended * channels
    return FLOAT * configurations * (kept + passing)


def forward_bytes(nodes: int, edges: int, configurations: int, channels: int, heads: int) -> int:
    """Peak memory of a forward pass without gradients, of the same."""
    attended = 2 * edges + nodes
    return FLOAT * configurations * (4 * nodes * channels + attended * (channels + 3 * heads))


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
