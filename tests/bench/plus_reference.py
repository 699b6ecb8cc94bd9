"""``tgraph-plus`` written out plainly: one network after the other, by torch's own layers.

What :mod:`lib.models.plus` computes for all members at once; it is what a training step is timed
against (:mod:`tests.bench.plus_step`), and what its scores are compared with in the tests.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lib.models.context import ContextBatch, ContextLayer
from lib.models.members import Linears, Perceptrons
from lib.models.plus import LARGEST_LOGARITHM, CostBatch, TGraphPlus
from lib.models.scatter import added_at


class PlainTGraphPlus(nn.Module):
    """A network with the weights of another, each member a module of its own."""

    def __init__(self, network: TGraphPlus):
        super().__init__()
        self.inputs = network.inputs
        count = len(network.copy_cost.first.weight)
        self.members = nn.ModuleList(PlainMember(network, number) for number in range(count))

    def forward(self, batch: CostBatch) -> Tensor:
        """See :meth:`lib.models.plus.TGraphPlus.forward`."""
        standardized = self.inputs(batch)
        scores = torch.stack([member(standardized) for member in self.members])
        return scores if self.training else scores.mean(dim=0)


class PlainMember(nn.Module):
    """One member."""

    def __init__(self, network: TGraphPlus, number: int):
        super().__init__()
        self.copy_cost = _perceptron(network.copy_cost, number)
        self.off_layout_cost = _perceptron(network.off_layout_cost, number)
        self.repeated_cost = _perceptron(network.repeated_cost, number)
        self.context = PlainContext(network.context, number)
        self.addend = _perceptron(network.addend.perceptrons, number)

    def forward(self, batch: CostBatch) -> Tensor:
        """Scores of a standardized batch, (b,)."""
        states = self.context(batch.copies, batch.off_layout, batch.context)
        which, tensor, reader = batch.context.copies.unbind(dim=1)
        heard = torch.cat([batch.copies[which], states[tensor], states[reader]], dim=1)
        learned = self.copy_cost(batch.copies)[which] + self.addend(heard)
        total = learned.new_zeros(batch.configurations)
        costs = _exponential(learned).squeeze(-1) * batch.copy_bytes[which]
        total = added_at(total, costs, batch.context.copy_places)
        costs = self.off_layout_cost(batch.off_layout).squeeze(-1) * batch.off_layout_bytes
        total = added_at(total, costs, batch.off_layout_places)
        costs = _exponential(self.repeated_cost(batch.repeated)).squeeze(-1) * batch.repeated_work
        return added_at(total, costs, batch.repeated_places)


class PlainContext(nn.Module):
    """States of nodes, of one member."""

    def __init__(self, context: nn.Module, number: int):
        super().__init__()
        layers = context.node, context.copied, context.read, context.off_layout
        self.node, self.copied, self.read, self.off_layout = (_linear(o, number) for o in layers)
        self.blocks = nn.ModuleList(PlainBlock(block, number) for block in context.blocks)

    def forward(self, copies: Tensor, operations: Tensor, batch: ContextBatch) -> Tensor:
        """Rows after the last block, (r, channels)."""
        states = self.node(batch.nodes).index_select(0, batch.node)
        states = added_at(states, self.copied(copies), batch.copied)
        states = added_at(states, self.read(copies), batch.read)
        states = added_at(states, self.off_layout(operations), batch.off_layout)
        for block, layer in zip(self.blocks, batch.layers, strict=True):
            states = block(states, layer)
        return states


class PlainBlock(nn.Module):
    """One round of messages, of one member."""

    def __init__(self, block: nn.Module, number: int):
        super().__init__()
        channels = block.norm.scale.shape[1]
        self.norm = nn.LayerNorm(channels)
        self.norm.weight = nn.Parameter(block.norm.scale[number].detach().clone())
        self.norm.bias = nn.Parameter(block.norm.bias[number].detach().clone())
        self.own, self.operands, self.users = (nn.Linear(channels, channels) for _ in range(3))
        parts = block.heard.weight[number].detach().chunk(3, dim=1)
        for layer, part in zip((self.own, self.operands, self.users), parts, strict=True):
            layer.weight, layer.bias = nn.Parameter(part.clone()), None
        self.own.bias = nn.Parameter(block.heard.bias[number].detach().clone())
        self.dropout = nn.Dropout(block.dropout)

    def forward(self, states: Tensor, layer: ContextLayer) -> Tensor:
        """(rows before, channels) to (rows, channels)."""
        normed = self.norm(states)
        heard = self.own(normed.index_select(0, layer.own))
        heard = heard + self.operands(layer.operands.mean(normed))
        heard = heard + self.users(layer.users.mean(normed))
        return states.index_select(0, layer.own) + self.dropout(nn.functional.gelu(heard))


def _perceptron(made: Perceptrons, number: int) -> nn.Sequential:
    first, second, last = (_linear(one, number) for one in (made.first, made.second, made.last))
    dropouts = nn.Dropout(made.dropout), nn.Dropout(made.dropout)
    return nn.Sequential(first, nn.GELU(), dropouts[0], second, nn.GELU(), dropouts[1], last)


def _linear(made: Linears, number: int) -> nn.Linear:
    _, channels, width = made.weight.shape
    own = nn.Linear(width, channels, bias=made.bias is not None)
    own.weight = nn.Parameter(made.weight[number].detach().clone())
    if made.bias is not None:
        own.bias = nn.Parameter(made.bias[number].detach().clone())
    return own


def _exponential(logarithms: Tensor) -> Tensor:
    return logarithms.clamp(max=LARGEST_LOGARITHM).exp()
