"""How much memory graph attention takes."""

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
