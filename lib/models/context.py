"""What surrounds a layout copy: GraphSAGE blocks over a program, each distinct state once.

A configuration touches few of a program's nodes, and most configurations of a batch touch a node
in one of few ways. So the state of a node is computed once for all configurations under which it,
and what lies within reach of the blocks, is the same: a *row*. This is exact, as for the rows of
:mod:`lib.models.rows`, but it also holds after messages were passed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lib import native
from lib.models.activation import gelu_dropout
from lib.models.batch import OnDevice
from lib.models.members import Linears, Norms
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

    def heard(self, states: Tensor) -> Tensor:
        """Each row's own state, and the means over its operands and its users.

        Args:
            states: (rows before, members, channels).

        Returns:
            (members, r, 3 channels), in one pass of a compiled loop on a CPU.
        """
        if native.takes(states):
            sides = self.operands, self.users
            places = (place for side in sides for place in (side.sources, side.pointers))
            return _Heard.apply(states, self.own, *places)
        own_states = states.index_select(0, self.own)
        parts = own_states, self.operands.mean(states), self.users.mean(states)
        return torch.cat(parts, dim=-1).transpose(0, 1)


class _Heard(torch.autograd.Function):
    """:meth:`ContextLayer.heard` by compiled loops."""

    @staticmethod
    def forward(ctx, states, *places):
        """What is heard; the places are all that is kept."""
        ctx.save_for_backward(*places)
        ctx.before = len(states)
        return torch.ops.tgraph.heard_forward(states.contiguous(), *places)

    @staticmethod
    def backward(ctx, gradient):
        """The gradient by the states; places have none."""
        places = ctx.saved_tensors
        by_state = torch.ops.tgraph.heard_backward(gradient.contiguous(), ctx.before, *places)
        return by_state, *[None] * len(places)


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

    A row has the states of all members side by side, so that it is gathered once for all.

    Args:
        members: networks side by side, which hear nothing of each other.
        node_width, copy_width, off_layout_width: features of a node, of a layout copy, and of an
            off-layout operation.
        channels: of a state.
        blocks: how many.
        dropout: share of a block's channels left out in training.
    """

    def __init__(
        self,
        members: int,
        node_width: int,
        copy_width: int,
        off_layout_width: int,
        channels: int,
        blocks: int,
        dropout: float,
    ):
        super().__init__()
        self.node = Linears(members, node_width, channels)
        self.copied = Linears(members, copy_width, channels, bias=False)
        self.read = Linears(members, copy_width, channels, bias=False)
        self.off_layout = Linears(members, off_layout_width, channels, bias=False)
        self.blocks = nn.ModuleList(ContextBlock(members, channels, dropout) for _ in range(blocks))

    def forward(self, copies: Tensor, operations: Tensor, batch: ContextBatch) -> Tensor:
        """Rows after the last block, (r, members, channels), from standardized features."""
        states = rows_of(self.node(batch.nodes)).index_select(0, batch.node)
        states = added_at(states, rows_of(self.copied(copies)), batch.copied)
        states = added_at(states, rows_of(self.read(copies)), batch.read)
        states = added_at(states, rows_of(self.off_layout(operations)), batch.off_layout)
        states = states.unflatten(1, (len(self.node.weight), -1))
        for block, layer in zip(self.blocks, batch.layers, strict=True):
            states = block(states, layer)
        return states


class ContextBlock(nn.Module):
    """One round of messages, see :class:`Context`."""

    def __init__(self, members: int, channels: int, dropout: float):
        super().__init__()
        self.norm = Norms(members, channels)
        self.heard = Linears(members, 3 * channels, channels, parts=3)  # A, B and C
        self.dropout = dropout

    def forward(self, states: Tensor, layer: ContextLayer) -> Tensor:
        """(rows before, members, channels) to (rows, members, channels)."""
        heard = self.heard(layer.heard(self.norm(states)))
        heard = gelu_dropout(heard, self.dropout, self.training)
        return states.index_select(0, layer.own) + heard.transpose(0, 1)


def rows_of(states: Tensor) -> Tensor:
    """(members, r, channels) as rows, (r, members * channels)."""
    return states.transpose(0, 1).flatten(1)
