"""Whole graphs as sums of segments: GST, its baselines, and what they read.

Graph segment training (GST thesis, section 3): a graph's embedding is the sum of its segments',
so that a step can keep activations of a few segments only and still see the whole graph. Full
graph attention is the case of one segment; *Partitioning* is that with gradients in some nodes
only; the *Pooling Model* needs no messages at all.

Where the thesis is vague: layouts are one-hot before the linear encoders, for their digits are
categories (a digit that is not set adds nothing); a segment's embedding is the sum of its nodes'
vectors; the sum over the graph is divided by the square root of its number of nodes, a constant
within a graph, so that large graphs start out with scores of the same size as small ones; layers
have skip connections, as the inductive network of the GAT paper has, and ELU.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from lib.models.common.rows import (
    CONFIG_DIGITS,
    DIGIT_VALUES,
    FLOAT,
    LAYOUT_DIGITS,
    NUMERIC,
    OPCODES,
    GraphBatch,
    Standardize,
    expand_rows,
)
from lib.models.common.scatter import targets
from lib.models.segments.batch import Segment, SegmentsBatch
from lib.models.segments.gat import GraphAttention, forward_bytes, with_itself

SET_VALUES = DIGIT_VALUES - 1  # of a digit, but for "not set"


class GraphSum(nn.Module, ABC):
    """Scores from the sum of the segments' embeddings; what an embedding is, subclasses say.

    Scores do not depend on which configurations share a batch; lower means faster.

    Attributes:
        width: of an embedding.
    """

    width: int

    def forward(self, batch: SegmentsBatch) -> Tensor:
        """Scores of the batch's configurations, (b,) float32."""
        device = next(self.parameters()).device
        total = torch.zeros((batch.configurations, self.width), device=device)
        if batch.stored is not None:
            total = total + batch.stored
        for segment in map(lambda part: part.to(device), batch.segments):
            with torch.set_grad_enabled(segment.trained and torch.is_grad_enabled()):
                embedded = self.embed(segment).index_select(0, segment.index)  # (p, width)
            if batch.computed is not None:
                batch.computed.append(segment.embedded(embedded))
            total = total.index_add(0, segment.places, segment.weight * embedded)
        return self.score(total, batch.nodes)

    @abstractmethod
    def embed(self, segment: Segment) -> Tensor:
        """The sum over a segment's nodes, (d, width)."""

    @abstractmethod
    def forward_bytes(self, nodes: int, edges: int) -> int:
        """Return bytes, roughly, that :meth:`embed` takes a configuration, without gradients."""

    @abstractmethod
    def score(self, total: Tensor, nodes: int) -> Tensor:
        """Scores, (b,), from the sum over all of a graph's nodes, (b, width)."""


class PoolingModel(GraphSum):
    """A linear layer over mean-pooled node features and configuration features (section 4).

    A mean and a linear layer may change places, so each row of the table gets its number first.
    Within a graph all configurations have the same mean of node features: these can shift the
    scores of a graph, but never change their order.
    """

    width = 1

    def __init__(self):
        super().__init__()
        self.inputs = WholeInputs()
        self.linear = nn.Linear(self.inputs.node_width + self.inputs.config_width, 1)

    def embed(self, segment: Segment) -> Tensor:
        graph = segment.graph
        features = torch.cat([self.inputs.nodes(graph), self.inputs.configs(graph)], 1)
        numbers = nn.functional.linear(features, self.linear.weight)  # (r, 1)
        return expand_rows(numbers, graph).sum(dim=0)

    def forward_bytes(self, nodes: int, edges: int) -> int:
        """Bytes that a forward pass takes; at worst all rows are of this configuration."""
        return FLOAT * nodes * (self.inputs.node_width + self.inputs.config_width)

    def score(self, total: Tensor, nodes: int) -> Tensor:
        return (total / nodes + self.linear.bias).squeeze(-1)


class AttentionModel(GraphSum):
    """Graph attention on each segment, an MLP on the sum: GST, GAT and Partitioning alike.

    Which of them it is, the segments say that it is trained on.
    """

    def __init__(self, channels: int = 64, layers: int = 2, heads: int = 4):
        super().__init__()
        self.width, self.heads = channels, heads
        self.inputs = WholeInputs()
        self.opcodes = nn.Embedding(OPCODES, channels)  # M1: bias-free, on one-hots
        self.configs = nn.Linear(self.inputs.config_width, channels, bias=False)  # M2
        self.nodes = nn.Linear(self.inputs.node_width, channels, bias=False)  # M3
        self.layers = nn.ModuleList(GraphAttention(channels, heads) for _ in range(layers))
        self.first = nn.Linear(channels, channels)
        self.out = nn.Linear(channels, 1)

    def embed(self, segment: Segment) -> Tensor:
        if segment.nodes is None or not torch.is_grad_enabled():
            return self._embed(segment.graph)[0]
        return self._embed_run(segment.graph, segment.nodes)

    def forward_bytes(self, nodes: int, edges: int) -> int:
        return forward_bytes(nodes, edges, 1, self.width, self.heads)

    def score(self, total: Tensor, nodes: int) -> Tensor:
        hidden = nn.functional.gelu(self.first(total / nodes**0.5))
        return self.out(hidden).squeeze(-1)

    def table(self, graph: GraphBatch, rows: Tensor | slice = slice(None)) -> Tensor:
        """M1(opcodes) + M2(configs) + M3(nodes) of a graph's rows, (r, channels)."""
        return (
            self.opcodes(graph.program.opcode[graph.nodes[rows]])
            + self.configs(self.inputs.configs(graph, rows))
            + self.nodes(self.inputs.nodes(graph, rows))
        )

    def _embed(self, graph: GraphBatch, watched: Tensor | None = None) -> tuple[Tensor, list]:
        """The sum over all nodes, and each layer's input at the ``watched`` nodes."""
        sources, pointers = with_itself(graph.program.sources, graph.program.pointers)
        rows, seen = self.table(graph), []
        x = expand_rows(rows, graph)  # (n, d, c)
        for number, layer in enumerate(self.layers):
            if watched is not None:
                seen.append(x[watched])
            if number:
                projected = layer.projection(x)
            else:  # cells still share rows, and so their projections
                projected = expand_rows(layer.projection(rows), graph)
            x = x + nn.functional.elu(layer.attend(projected, sources, pointers))
        if watched is not None:
            seen.append(x[watched])
        return x.sum(dim=0), seen

    def _embed_run(self, graph: GraphBatch, nodes: Tensor) -> Tensor:
        """The sum over all nodes, with gradients through ``nodes`` only.

        Forward it is :meth:`_embed`, once without gradients for all, and once with them for the
        run, which reads its neighbours' vectors of the first pass.
        """
        others, sources, pointers = _neighbourhood(graph, nodes)
        with torch.no_grad():
            total, seen = self._embed(graph, torch.cat([nodes, others]))
        rows, index = torch.unique(_rows_of(graph, nodes), return_inverse=True)
        count, x = len(nodes), nn.functional.embedding(index, self.table(graph, rows))
        for layer, before in zip(self.layers, seen, strict=False):
            joined = torch.cat([x, before[count:]])
            x = x + nn.functional.elu(layer(joined, sources, pointers))
        return (total - seen[-1][:count].sum(dim=0)) + x.sum(dim=0)


class WholeInputs(nn.Module):
    """Rows of a graph as numbers: standardized and one-hot."""

    config_width = CONFIG_DIGITS * SET_VALUES
    node_width = NUMERIC + LAYOUT_DIGITS * SET_VALUES

    def __init__(self):
        super().__init__()
        self.standardize = Standardize()

    def configs(self, graph: GraphBatch, rows: Tensor | slice = slice(None)) -> Tensor:
        """(r, 108): the configuration's digits; zero at nodes that it does not reach."""
        return _one_hot(graph.program.digits[graph.codes[rows]])

    def nodes(self, graph: GraphBatch, rows: Tensor | slice = slice(None)) -> Tensor:
        """(r, 170): the node's numbers, and its layout's digits."""
        numbers = self.standardize(graph.program.features[graph.nodes[rows]])
        return torch.cat([numbers, _one_hot(graph.program.layout[graph.nodes[rows]])], dim=1)


def _neighbourhood(graph: GraphBatch, nodes: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the other nodes that some attend to, and sources and pointers among rows of the nodes,
    then of the others."""
    sources, pointers = with_itself(graph.program.sources, graph.program.pointers)
    starts, counts = pointers[nodes], pointers.diff()[nodes]
    local = torch.cat([counts.new_zeros(1), counts.cumsum(0)])
    count = int(local[-1])
    run = targets(local, count)
    offsets = torch.arange(count, device=nodes.device) - local[run]
    read = sources[starts[run] + offsets]
    place = torch.full((graph.node_count,), -1, device=nodes.device)
    place[nodes] = torch.arange(len(nodes), device=nodes.device)
    others = torch.unique(read[place[read] < 0])
    place[others] = len(nodes) + torch.arange(len(others), device=nodes.device)
    return others, place[read], local


def _rows_of(graph: GraphBatch, nodes: Tensor) -> Tensor:
    """The row of the table of each of some nodes under each configuration, (t, d)."""
    configurable, configurations = graph.cells.shape
    rows = (nodes - configurable)[:, None].repeat(1, configurations)
    inside = nodes < configurable
    rows[inside] = graph.cells[nodes[inside]]
    return rows


def _one_hot(digits: Tensor) -> Tensor:
    """(r, w) digits in 0..6, 0 being not set, to (r, 6 w) float32."""
    values = torch.arange(1, DIGIT_VALUES, device=digits.device)
    return (digits[..., None] == values).flatten(1).float()
