"""Late fusion for tile configurations (TGraph paper, section 2.2.5).

A tile configuration says something about a kernel as a whole, not about its nodes. So a graph
network embeds the kernel once, a small network embeds each configuration, and a head scores the
pair: thousands of configurations cost one pass over the graph.

The paper says no more of this network than "late fusion"; the rest is decided here. The graph
network is TGraph's without what needs configurations at the nodes. Layer normalization takes the
place of instance normalization, since over a kernel of two nodes the latter would leave nothing
but signs. Bounds, dimensions and their products act by factors, so numbers are standardized as
signed logarithms. Scores do not depend on the batch, other than TGraph's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lib.models.common.attention import ChannelSelfAttention
from lib.models.common.batch import OnDevice
from lib.models.common.rows import DIGIT_VALUES, LAYOUT_DIGITS, NUMERIC, OPCODES, Standardize
from lib.models.common.sage import SageConvolution
from lib.models.common.scatter import segment

TILE_FEATURES = 24  # kernel, output and input bounds: six, their sum and product each


@dataclass(frozen=True)
class KernelBatch(OnDevice):
    """Several kernels as one graph of n nodes in g parts.

    Attributes:
        features: (n, 134) float32, not yet standardized.
        opcode: (n,) int64.
        layout: (n, 6) int64, layout digits + 1, in 0..6.
        sources: (e,) int64, neighbours of node 0, then of node 1, ...
        pointers: (n + 1,) int64, where each node's neighbours start in ``sources``.
        kernels: (g + 1,) int64, where each kernel's nodes start.
    """

    features: Tensor
    opcode: Tensor
    layout: Tensor
    sources: Tensor
    pointers: Tensor
    kernels: Tensor


@dataclass(frozen=True)
class TileBatch(OnDevice):
    """Configurations of the kernels of a batch.

    Attributes:
        graph: the kernels.
        configurations: (b, 24) float32, not yet standardized.
        kernel: (b,) int64, the kernel of each configuration.
    """

    graph: KernelBatch
    configurations: Tensor
    kernel: Tensor


class LogStandardize(Standardize):
    """Element-wise standardization of sign(x) log(1 + |x|), fitted without holding the rows."""

    def fit_chunks(self, chunks: Callable[[], Iterable[Tensor]]) -> None:
        """Fit means and deviations of the logarithms."""
        super().fit_chunks(lambda: map(signed_log, chunks()))

    def forward(self, features: Tensor) -> Tensor:
        """(rows, width) float32 to the same shape."""
        return super().forward(signed_log(features))


def signed_log(x: Tensor) -> Tensor:
    """sign(x) log(1 + |x|), which keeps order and zero."""
    return torch.sign(x) * torch.log1p(x.abs())


class TileNetwork(nn.Module):
    """Scores of tile configurations; lower means faster, comparable within a kernel only."""

    def __init__(
        self,
        channels: int = 256,
        blocks: int = 2,
        opcode_channels: int = 16,
        layout_channels: int = 4,
        squeeze: int = 8,
    ):
        super().__init__()
        self.kernel = KernelEmbedding(channels, blocks, opcode_channels, layout_channels, squeeze)
        self.standardize = LogStandardize(TILE_FEATURES)
        self.configuration = nn.Sequential(
            nn.Linear(TILE_FEATURES, channels), nn.GELU(), nn.Linear(channels, channels), nn.GELU()
        )
        self.join_kernel = nn.Linear(self.kernel.width, channels)
        self.join_configuration = nn.Linear(channels, channels, bias=False)
        self.out = nn.Linear(channels, 1)

    def forward(self, batch: TileBatch) -> Tensor:
        """Scores of the batch's configurations, (b,) float32."""
        return self.score(self.embed(batch.graph), batch.configurations, batch.kernel)

    def embed(self, graph: KernelBatch) -> Tensor:
        """Return each kernel's embedding for :meth:`score`, (g, channels)."""
        return self.join_kernel(self.kernel(graph))

    def score(self, kernels: Tensor, configurations: Tensor, kernel: Tensor) -> Tensor:
        """Scores, (b,), of (b, 24) configurations of the (b,) th of the embedded kernels.

        The head's first layer reads the concatenation of both embeddings; its two halves are
        applied apart, and so the kernel's only once a kernel.
        """
        joined = self.join_configuration(self.configuration(self.standardize(configurations)))
        return self.out(nn.functional.gelu(joined + kernels[kernel])).squeeze(-1)


class KernelEmbedding(nn.Module):
    """A vector a kernel: TGraph's inputs and graph blocks, pooled by mean and by maximum."""

    def __init__(
        self, channels: int, blocks: int, opcode_channels: int, layout_channels: int, squeeze: int
    ):
        super().__init__()
        self.standardize = LogStandardize(NUMERIC)
        self.opcode = nn.Embedding(OPCODES, opcode_channels)
        self.digit = nn.Embedding(DIGIT_VALUES, layout_channels)
        width = NUMERIC + opcode_channels + LAYOUT_DIGITS * layout_channels
        self.first = nn.Linear(width, channels)
        self.second = nn.Linear(channels, channels)
        self.blocks = nn.ModuleList(KernelBlock(channels, squeeze) for _ in range(blocks))
        self.width = 2 * channels

    def forward(self, graph: KernelBatch) -> Tensor:
        """(g, 2 * channels): the mean and the maximum over each kernel's nodes."""
        parts = (
            self.standardize(graph.features),  # (n, 134)
            self.opcode(graph.opcode),  # (n, opcode channels)
            self.digit(graph.layout).flatten(1),  # (n, 6 * layout channels)
        )
        x = nn.functional.gelu(self.first(torch.cat(parts, dim=1)))  # (n, channels)
        x = nn.functional.gelu(self.second(x))
        for block in self.blocks:
            x = block(x, graph.sources, graph.pointers)
        pooled = (segment(x, graph.kernels, how) for how in ("mean", "max"))
        return torch.cat(list(pooled), dim=1)


class KernelBlock(nn.Module):
    """x + GELU(A_self(S(LayerNorm(x)))): the graph convolutional block of section 2.3."""

    def __init__(self, channels: int, squeeze: int):
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.sage = SageConvolution(channels, channels)
        self.channel_attention = ChannelSelfAttention(channels, squeeze)

    def forward(self, x: Tensor, sources: Tensor, pointers: Tensor) -> Tensor:
        """(n, channels) to the same shape."""
        eta = self.sage(self.norm(x)[:, None], sources, pointers)[:, 0]
        return x + nn.functional.gelu(self.channel_attention(eta))
