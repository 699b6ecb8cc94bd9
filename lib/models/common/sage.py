"""GraphSAGE on scatter primitives (TGraph paper, equation 2).

Tensors are (nodes, configurations, channels): with nodes outermost, the sum over a node's
neighbours is a sum over contiguous blocks of edges sorted by target.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lib.models.common.scatter import neighbour_sum


class SageConvolution(nn.Module):
    """S(x)_i = L2-normalized f2(concat(x_i, sum over neighbours j of f1(x_j))).

    The paper calls f1 and f2 feed-forward layers and names no activation in them; the only one
    is the block's GELU, so both are linear. Neighbours are users and operands alike, each once.

    Without edges (table 3) no node has a neighbour: S(x)_i = L2-normalized f2(x_i), and no f1.
    """

    def __init__(self, channels: int, width: int, edges: bool = True):
        super().__init__()
        self.message = nn.Linear(channels, width) if edges else None
        self.update = nn.Linear(channels + width if edges else channels, width)

    def forward(self, x: Tensor, sources: Tensor, pointers: Tensor) -> Tensor:
        """(n, b, channels) to (n, b, width), every vector of unit length.

        Both layers read x: their weights for it are joined into one product, and f2 is applied
        to the two parts of its input apart, which spares writing out the concatenation.
        """
        if self.message is None:
            return nn.functional.normalize(self.update(x), dim=-1)
        channels, width = self.message.in_features, self.message.out_features
        node_weight, gathered = self.update.weight.split([channels, width], dim=1)
        joined = nn.functional.linear(x, torch.cat([self.message.weight, node_weight]))
        messages, updated = joined.split(width, dim=-1)  # (n, b, width) each
        gathered_messages = neighbour_sum(messages + self.message.bias, sources, pointers)
        updated = updated + nn.functional.linear(gathered_messages, gathered, self.update.bias)
        return nn.functional.normalize(updated, dim=-1)
