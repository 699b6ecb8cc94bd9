"""Graph attention (Velickovic et al. 2018, equations 1 to 5) on scatter primitives.

Tensors are (nodes, configurations, channels), as everywhere: each configuration is a graph of its
own with the same edges. A node attends to its neighbours, users and operands alike, and to itself.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lib.models.common.rows import FLOAT
from lib.models.common.scatter import segment, targets

SLOPE = 0.2  # of the LeakyReLU on the attention's logits


class GraphAttention(nn.Module):
    """One layer: heads side by side, their outputs concatenated.

    Projection and attention are apart, for the caller may know a cheaper way to project: vectors
    that many cells share are projected once.
    """

    def __init__(self, channels: int, heads: int):
        super().__init__()
        self.heads = heads
        self.projection = nn.Linear(channels, channels, bias=False)
        self.source = nn.Parameter(torch.empty(heads, channels // heads))
        self.target = nn.Parameter(torch.empty(heads, channels // heads))
        self.bias = nn.Parameter(torch.zeros(channels))
        for vector in (self.source, self.target):
            nn.init.xavier_uniform_(vector)

    def forward(self, x: Tensor, sources: Tensor, pointers: Tensor) -> Tensor:
        """(m, b, channels) to (n, b, channels): of the first n rows, see :meth:`attend`."""
        return self.attend(self.projection(x), sources, pointers)

    def attend(self, projected: Tensor, sources: Tensor, pointers: Tensor) -> Tensor:
        """Return what each node reads from its neighbours.

        Args:
            projected: (m, b, channels), W h. The first n rows are the nodes that attend; others
                are only attended to.
            sources: (e,) int64, rows that are attended to, the node itself among them, see
                :func:`with_itself`.
            pointers: (n + 1,) int64, where each node's start.

        Returns:
            (n, b, channels), before an activation.
        """
        split = projected.unflatten(-1, (self.heads, -1))  # (m, b, heads, width)
        of_source = (split * self.source).sum(dim=-1)  # (m, b, heads)
        of_target = (split[: len(pointers) - 1] * self.target).sum(dim=-1)  # (n, b, heads)
        logits = of_source.index_select(0, sources)
        logits = logits + of_target.index_select(0, targets(pointers, len(sources)))
        weights = segment_softmax(nn.functional.leaky_relu(logits, SLOPE), pointers)
        return weighted_sum(split, weights, sources, pointers).flatten(-2) + self.bias


def with_itself(sources: Tensor, pointers: Tensor) -> tuple[Tensor, Tensor]:
    """The neighbours of each node with the node itself put before them; a loop counts no more.

    Args:
        sources, pointers: as in :class:`lib.models.common.rows.GraphBatch`.
    """
    nodes = torch.arange(len(pointers) - 1, device=pointers.device)
    target = targets(pointers, len(sources))
    other = sources != target
    sources, target = sources[other], target[other]
    counts = torch.bincount(target, minlength=len(nodes)) + 1
    joined = torch.cat([nodes.new_zeros(1), counts.cumsum(0)])
    attended = torch.empty(len(sources) + len(nodes), dtype=torch.int64, device=sources.device)
    attended[joined[:-1]] = nodes
    attended[torch.arange(len(sources), device=sources.device) + target + 1] = sources
    return attended, joined


def segment_softmax(values: Tensor, pointers: Tensor) -> Tensor:
    """Softmax over each run of rows.

    Args:
        values: (e, ...).
        pointers: (n + 1,) int64, where each run starts; together they hold all rows.

    Returns:
        (e, ...); the rows of a run sum to 1. The largest of a run is taken off first, so that no
        exponential overflows; that changes nothing, and no gradient flows through it.
    """
    run = targets(pointers, len(values))
    with torch.no_grad():
        largest = segment(values, pointers, "max").index_select(0, run)
    powers = torch.exp(values - largest)
    return powers / segment(powers, pointers, "sum").index_select(0, run)


def weighted_sum(values: Tensor, weights: Tensor, sources: Tensor, pointers: Tensor) -> Tensor:
    """Sum of each node's neighbours, every head's with a weight of its own.

    What is gathered from the neighbours, the largest tensor of all, is not kept for the way back
    but gathered again.

    Args:
        values: (m, b, heads, width).
        weights: (e, b, heads), of the neighbours in ``sources``.
        sources: (e,) int64, rows of ``values``: neighbours of node 0, then of node 1, ...
        pointers: (n + 1,) int64, where each node's neighbours start.

    Returns:
        (n, b, heads, width).
    """
    return _WeightedSum.apply(values, weights, sources, pointers)


class _WeightedSum(torch.autograd.Function):
    """:func:`weighted_sum`, whose backward pass gathers anew, to keep nothing gathered."""

    @staticmethod
    def forward(ctx, values, weights, sources, pointers):
        """The sums; the arguments are all that is kept."""
        ctx.save_for_backward(values, weights, sources, pointers)
        gathered = values.index_select(0, sources)
        return segment(gathered.mul_(weights[..., None]), pointers, "sum")

    @staticmethod
    def backward(ctx, gradient):
        """Gradients by values and weights; the graph has none."""
        values, weights, sources, pointers = ctx.saved_tensors
        run = targets(pointers, len(sources))
        spread = gradient.index_select(0, run)  # (e, b, heads, width)
        by_weight = values.index_select(0, sources).mul_(spread).sum(dim=-1)
        spread.mul_(weights[..., None])
        by_value = torch.zeros_like(values).index_add_(0, sources, spread)
        return by_value, by_weight, None, None


def forward_bytes(nodes: int, edges: int, configurations: int, channels: int, heads: int) -> int:
    """Return the peak memory of a forward pass of a layer over n nodes without gradients."""
    attended = 2 * edges + nodes
    return FLOAT * configurations * (4 * nodes * channels + attended * (channels + 3 * heads))
