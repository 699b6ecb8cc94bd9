"""TGraph the plain way, to measure against: dense repeat, PyTorch Geometric, eager.

What one writes first from the paper (section 2.3) with the usual library: the features of every
node are repeated for every configuration, every layer runs on all (configuration, node) cells,
messages go through ``MessagePassing``. Parameters and buffers have the names of
:class:`lib.models.tgraph.network.TGraph`, so that one ``state_dict`` loads into both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from lib.models.tgraph.inputs import GraphTensors


@dataclass(frozen=True)
class DenseBatch:
    """One graph under b configurations, n nodes, every cell written out.

    Attributes:
        features: (b, n, 134) float32, not yet standardized.
        opcode: (b, n) int64.
        digits: (b, n, 24) int64, node layout and configuration digits + 1.
        edges: (2, e) int64, source and target of every message, both directions of each edge.
    """

    features: Tensor
    opcode: Tensor
    digits: Tensor
    edges: Tensor


def dense_batch(graph: GraphTensors, rows) -> DenseBatch:
    """The dense form of ``graph.batch(rows)``."""
    cells = torch.from_numpy(graph.cells[rows].astype("int64"))  # (b, k)
    count, configurable = len(graph.features), cells.shape[1]
    config = torch.zeros((len(rows), count, graph.program.digits.shape[1]), dtype=torch.int64)
    config[:, :configurable] = graph.program.digits[cells]
    layout = graph.program.layout.expand(len(rows), -1, -1)
    degree = graph.program.pointers.diff()
    targets = torch.arange(count).repeat_interleave(degree)
    return DenseBatch(
        features=graph.features.repeat(len(rows), 1, 1),
        opcode=graph.program.opcode.repeat(len(rows), 1),
        digits=torch.cat([layout, config], dim=-1),
        edges=torch.stack([graph.program.sources, targets]),
    )


class Reference(nn.Module):
    """Scores of a graph's configurations; the arguments are those of ``TGraph``."""

    def __init__(self, channels=256, blocks=2, opcode_channels=16, layout_channels=4, squeeze=8):
        super().__init__()
        self.inputs = Inputs(opcode_channels, layout_channels)
        self.first = nn.Linear(134 + opcode_channels + 24 * layout_channels, channels)
        self.second = nn.Linear(channels, channels)
        self.blocks = nn.ModuleList(Block(channels, squeeze) for _ in range(blocks))
        self.out = nn.Linear(channels, 1)

    def forward(self, batch: DenseBatch) -> Tensor:
        """(b,) scores."""
        x = nn.functional.gelu(self.first(self.inputs(batch)))  # (b, n, c)
        x = nn.functional.gelu(self.second(x))
        for block in self.blocks:
            x = block(x, batch.edges)
        return self.out(x.mean(dim=1)).squeeze(-1)


class Standardize(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(134))
        self.register_buffer("factor", torch.ones(134))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.mean) * self.factor


class Inputs(nn.Module):
    def __init__(self, opcode_channels: int, layout_channels: int):
        super().__init__()
        self.standardize = Standardize()
        self.opcode = nn.Embedding(121, opcode_channels)
        self.digit = nn.Embedding(7, layout_channels)

    def forward(self, batch: DenseBatch) -> Tensor:
        numbers = self.standardize(batch.features)
        return torch.cat(
            [numbers, self.opcode(batch.opcode), self.digit(batch.digits).flatten(2)], dim=-1
        )


class Sage(MessagePassing):
    def __init__(self, channels: int, width: int):
        super().__init__(aggr="sum", node_dim=-2)
        self.message_ = nn.Linear(channels, width)
        self.update_ = nn.Linear(channels + width, width)

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        gathered = self.propagate(edges, x=self.message_(x))
        return nn.functional.normalize(self.update_(torch.cat([x, gathered], dim=-1)), dim=-1)

    def message(self, x_j: Tensor) -> Tensor:
        return x_j


class ChannelAttention(nn.Module):
    def __init__(self, channels: int, squeeze: int):
        super().__init__()
        self.excitation = nn.Linear(channels, channels // squeeze)
        self.squeeze = nn.Linear(channels // squeeze, channels)

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.squeeze(torch.relu(self.excitation(x))))


class CrossAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_temperature = nn.Parameter(torch.tensor(math.log(0.5)))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.softmax(x / torch.exp(self.log_temperature), dim=0)


class Block(nn.Module):
    def __init__(self, channels: int, squeeze: int):
        super().__init__()
        self.sage = Sage(channels, channels // 2)
        self.channel_attention = ChannelAttention(channels // 2, squeeze)
        self.cross_attention = CrossAttention()

    def forward(self, x: Tensor, edges: Tensor) -> Tensor:
        normal = nn.functional.instance_norm(x.transpose(1, 2)).transpose(1, 2)  # over nodes
        eta = self.channel_attention(self.sage(normal, edges))
        return x + nn.functional.gelu(torch.cat([eta, self.cross_attention(eta)], dim=-1))


def load_weights(reference: Reference, state: dict[str, Tensor]) -> None:
    """The weights of a ``TGraph``; ``MessagePassing`` wants other names for two of them."""
    names = {"sage.message.": "sage.message_.", "sage.update.": "sage.update_."}
    renamed = {}
    for name, tensor in state.items():
        for ours, theirs in names.items():
            name = name.replace(ours, theirs)
        renamed[name] = tensor
    reference.load_state_dict(renamed)
