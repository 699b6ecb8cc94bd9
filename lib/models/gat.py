"""Graph attention (Velickovic et al. 2018, equations 1 to 5) on scatter primitives.

Tensors are (nodes, configurations, channels), as everywhere: each configuration is a graph of its
own with the same edges. A node attends to its neighbours, users and operands alike, and to itself.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lib.models.scatter import segment_softmax, targets, weighted_sum

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
        """What each node reads from its neighbours.

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
        logits = logits + of_target.index_select(0, targets(pointers))  # (e, b, heads)
        weights = segment_softmax(nn.functional.leaky_relu(logits, SLOPE), pointers)
        return weighted_sum(split, weights, sources, pointers).flatten(-2) + self.bias


def with_itself(sources: Tensor, pointers: Tensor) -> tuple[Tensor, Tensor]:
    """The neighbours of each node with the node itself put before them; a loop counts no more.

    Args:
        sources, pointers: as in :class:`lib.models.inputs.GraphBatch`.
    """
    nodes = torch.arange(len(pointers) - 1, device=pointers.device)
    target = targets(pointers)
    other = sources != target
    sources, target = sources[other], target[other]
    counts = torch.bincount(target, minlength=len(nodes)) + 1
    joined = torch.cat([nodes.new_zeros(1), counts.cumsum(0)])
    found = torch.empty(len(sources) + len(nodes), dtype=torch.int64, device=sources.device)
    found[joined[:-1]] = nodes
    found[torch.arange(len(sources), device=sources.device) + target + 1] = sources
    return found, joined
