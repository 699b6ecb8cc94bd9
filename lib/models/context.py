"""What surrounds a layout copy: GraphSAGE blocks over a program, each distinct state once.

A configuration touches few of a program's nodes, and most configurations of a batch touch a node
in one of few ways. So the state of a node is computed once for all configurations under which it,
and what lies within reach of the blocks, is the same: a *row*. This is exact, as for the rows of
:mod:`lib.models.inputs`, but it also holds after messages were passed.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor, nn

from lib.models.batch import OnDevice
from lib.models.scatter import added_at, segment


@dataclass(frozen=True)
class Neighbours(OnDevice):
    """Rows of the layer before, whose mean a row hears.

    Attributes:
        sources: (e,) int64, those of row 0, then of row 1, ...
        pointers: (r + 1,) int64, where each row's start.
    """

    sources: Tensor
    pointers: Tensor

    def mean(self, states: Tensor) -> Tensor:
        """(r, channels), zero for a row that has none, from (rows before, channels)."""
        return segment(states.index_select(0, self.sources), self.pointers, "mean")


@dataclass(frozen=True)
class ContextLayer(OnDevice):
    """How the r rows of a block come of the rows of the layer before.

    Attributes:
        own: (r,) int64, the row of the same node.
        operands, users: the rows of those.
    """

    own: Tensor
    operands: Neighbours
    users: Neighbours


@dataclass(frozen=True)
class ContextBatch(OnDevice):
    """States of a program's nodes under a batch of configurations, before any block and after each.

    Attributes:
        nodes: (n, features) float32, what no configuration changes.
        node: (r,) int64, of each row of the first layer: its node.
        copied, read: (p, 2) int64 pairs [row of the first layer, layout copy], by the tensor that
            is copied, and by the node that it happens for.
        off_layout: (p, 2) int64 pairs [row of the first layer, off-layout operation].
        layers: of the blocks.
        copies: (m, 3) int64, layout copies in distinct surroundings: [copy, row of the tensor, row
            of the reader], the rows after the last block.
        copy_places: (p, 2) int64, pairs [configuration, one of ``copies``].
    """

    nodes: Tensor
    node: Tensor
    copied: Tensor
    read: Tensor
    off_layout: Tensor
    layers: list[ContextLayer]
    copies: Tensor
    copy_places: Tensor


class Context(nn.Module):
    """States of nodes that hear the layout copies and off-layout operations around them.

    A node's state begins with what is fixed about it, and sums over the copies of its tensor, over
    those that happen for it, and over its own off-layout operation. Each block is
    h + dropout(GELU(A n + B mean of n over operands + C mean of n over users)), n = layer norm of
    h: GraphSAGE (TGraph paper, equation 2) with means for sums, so that a node with many users is
    heard like others, and both sides of an edge apart.

    Args:
        node_width, copy_width, off_layout_width: features of a node, of a layout copy, and of an
            off-layout operation.
        channels: of a state.
        blocks: how many.
        dropout: share of a block's channels left out in training.
    """

    def __init__(
        self,
        node_width: int,
        copy_width: int,
        off_layout_width: int,
        channels: int,
        blocks: int,
        dropout: float,
    ):
        super().__init__()
        self.node = nn.Linear(node_width, channels)
        self.copied = nn.Linear(copy_width, channels, bias=False)
        self.read = nn.Linear(copy_width, channels, bias=False)
        self.off_layout = nn.Linear(off_layout_width, channels, bias=False)
        self.blocks = nn.ModuleList(ContextBlock(channels, dropout) for _ in range(blocks))

    def forward(self, copies: Tensor, operations: Tensor, batch: ContextBatch) -> Tensor:
        """Rows after the last block, (r, channels), from standardized features."""
        states = self.node(batch.nodes).index_select(0, batch.node)
        states = added_at(states, self.copied(copies), batch.copied)
        states = added_at(states, self.read(copies), batch.read)
        states = added_at(states, self.off_layout(operations), batch.off_layout)
        for block, layer in zip(self.blocks, batch.layers, strict=True):
            states = block(states, layer)
        return states


class ContextBlock(nn.Module):
    """One round of messages, see :class:`Context`."""

    def __init__(self, channels: int, dropout: float):
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.own = nn.Linear(channels, channels)
        self.operands = nn.Linear(channels, channels, bias=False)
        self.users = nn.Linear(channels, channels, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, states: Tensor, layer: ContextLayer) -> Tensor:
        """(rows before, channels) to (rows, channels)."""
        normed = self.norm(states)
        heard = self.own(normed.index_select(0, layer.own))
        heard = heard + self.operands(layer.operands.mean(normed))
        heard = heard + self.users(layer.users.mean(normed))
        return states.index_select(0, layer.own) + self.dropout(nn.functional.gelu(heard))
