"""TGraph: GraphSAGE blocks with channel and cross-configuration attention (paper, figure 3)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from lib import native
from lib.models.common import blocks_gpu, fused
from lib.models.common.activation import gelu_dropout
from lib.models.common.attention import ChannelSelfAttention, ConfigurationCrossAttention
from lib.models.common.replay import Replays
from lib.models.common.rows import GraphBatch, RowVectors, expand_rows
from lib.models.common.sage import SageConvolution


class GraphStates(nn.Module):
    """States of a graph's nodes: B2(B1(f_in(X))) of equation 7.

    f_in has a GELU after each of its two layers.

    Args:
        channels, blocks, opcode_channels, layout_channels, squeeze: sizes (2.2.5, 2.3).
        temperature: initial, of the attention across configurations; without it there is none.
        channel_attention, edges: parts of the blocks that table 3 takes out.
        dropout: share of the channels of f_in's rows left out in training. Configurations lack
            the same ones where they are alike, so that dropout makes none differ from another.
        physics: columns of a batch's ``physics``.

    Attributes:
        precision: of matrix products: float32, or bfloat16 (with torch alone by autocast).
    """

    precision = torch.float32

    def __init__(
        self,
        channels: int = 256,
        blocks: int = 2,
        opcode_channels: int = 16,
        layout_channels: int = 4,
        squeeze: int = 8,
        temperature: float | None = None,
        channel_attention: bool = True,
        edges: bool = True,
        dropout: float = 0.0,
        physics: int = 0,
    ):
        super().__init__()
        self.dropout = dropout
        self.inputs = RowVectors(opcode_channels, layout_channels, physics)
        self.first = nn.Linear(self.inputs.width, channels)
        self.second = nn.Linear(channels, channels)
        reduction = squeeze if channel_attention else None
        self.blocks = nn.ModuleList(
            GraphBlock(channels, reduction, temperature, edges) for _ in range(blocks)
        )

    def forward(self, batch: GraphBatch) -> Tensor:
        """States of the batch's nodes under its configurations, (n, b, channels)."""
        return self.states(self.table(batch), batch)

    def states(self, table: Tensor, batch: GraphBatch) -> Tensor:
        """:meth:`forward` from :meth:`table`."""
        with self._autocast(table):
            x = expand_rows(table, batch)
            for block in self.blocks:
                x = block(x, batch.program.sources, batch.program.pointers)
        return x

    def table(self, batch: GraphBatch) -> Tensor:
        """f_in of the batch's rows, (r, channels), of the parameters' type."""
        inputs = self.inputs(batch)
        with self._autocast(inputs):
            rows = gelu_dropout(self.first(inputs), 0.0, self.training)
            rows = gelu_dropout(self.second(rows), self.dropout, self.training)
        return rows.to(inputs.dtype)

    def _autocast(self, like: Tensor) -> torch.autocast:
        enabled = self.precision != torch.float32
        return torch.autocast(like.device.type, self.precision, enabled=enabled)


class TGraph(GraphStates):
    """Scores of a graph's configurations: R(X) = f_out(Pool(B2(B1(f_in(X))))), equation 7.

    The scores are comparable within one batch of one graph only; lower means faster.

    The blocks run in the compiled loops of ``lib.native`` on a CPU (common/fused.py), and in
    kernels of Triton on a GPU (common/blocks_gpu.py); with other widths, without attention across
    configurations, or where either is not installed, on torch alone.

    Args:
        channels: width of the stream (2.3.3).
        temperature: initial, of the attention across configurations.
        score_gain: factor on the last layer's initial weights.
        cross_attention: whether there is that attention, which table 3 takes out.
        parts: see :class:`GraphStates`.

    Attributes:
        uses_native: whether the compiled loops and kernels may be used.
        compares_configurations: whether scores depend on which of them share a batch.
    """

    uses_native = True

    def __init__(
        self,
        channels: int = 256,
        temperature: float = 0.5,
        score_gain: float = 1.0,
        cross_attention: bool = True,
        **parts: Any,
    ):
        super().__init__(channels, temperature=temperature if cross_attention else None, **parts)
        self.compares_configurations = cross_attention and len(self.blocks) > 0
        self.out = nn.Linear(channels, 1)
        # Pooling over all nodes dilutes what a configuration changes in a few; the gain lets the
        # first scores already differ by a noticeable part of the loss's margin.
        nn.init.uniform_(self.out.weight, *(g * score_gain / channels**0.5 for g in (-1, 1)))
        self.replays = Replays(self, self.scores)

    def forward(self, batch: GraphBatch) -> Tensor:
        """Scores of the batch's configurations, (b,) float32."""
        return self.replays(batch) if self.runs_kernels(self.first.weight) else self.scores(batch)

    def scores(self, batch: GraphBatch) -> Tensor:
        """:meth:`forward`, kernel by kernel."""
        table = self.table(batch)
        if self.runs_native(table):
            x = fused.pooled(self.blocks, table, fused.cells_of(batch), self.precision)
        elif self.runs_kernels(table):
            x = blocks_gpu.pooled(self.blocks, table, batch, self.precision)
        else:
            x = self.states(table, batch).mean(dim=0)  # pooled over nodes: (b, c)
        return self.out(x).squeeze(-1)

    def shares(self) -> bool:
        """Return whether :meth:`share` has anything to offer: two blocks, not by torch alone."""
        like = self.first.weight
        return len(self.blocks) == 2 and (self.runs_native(like) or self.runs_kernels(like))

    def share(self, batch: GraphBatch) -> fused.Shared | blocks_gpu.Shared:
        """Return what all groupings of the batch's configurations have in common."""
        table = self.table(batch)
        if self.runs_kernels(table):
            return blocks_gpu.share(self.blocks, table, batch, self.precision)
        return fused.share(self.blocks, table, fused.cells_of(batch), self.precision)

    def score_group(self, shared: fused.Shared | blocks_gpu.Shared, group: Tensor) -> Tensor:
        """Scores, (b,), of the configurations at ``group``, (b,) int64, as one batch."""
        return self.out(shared.pooled(group)).squeeze(-1)

    def bytes_shared(self, nodes: int) -> int:
        """Memory that :meth:`share` needs for each configuration of a graph.

        What is kept has 3/2 numbers a channel; on a GPU there are 7/2 while it is computed.
        """
        halves = 7 if self.runs_kernels(self.first.weight) else 3
        return nodes * self.out.in_features * halves // 2 * self.precision.itemsize

    def runs_native(self, like: Tensor) -> bool:
        """Return whether the compiled loops do for rows of this tensor's type and device."""
        return (
            self.uses_native
            and len(self.blocks) > 0
            and fused.supported(self.out.in_features, self.blocks[0])
            and native.takes(like)
        )

    def runs_kernels(self, like: Tensor) -> bool:
        """Return whether kernels for a GPU do for rows on this tensor's device."""
        return (
            self.uses_native
            and like.is_cuda
            and len(self.blocks) > 0
            and blocks_gpu.supported(self.out.in_features, self.blocks[0])
            and blocks_gpu.available()
        )


class GraphBlock(nn.Module):
    """B(x) = x + GELU(concat(eta, A_cross(eta))), eta = A_self(S(N_instance(x))); equations 3, 4.

    The concatenation doubles the width, so eta has half the channels of the residual stream.
    Without attention across configurations there is nothing to concatenate: eta has all of them,
    and B(x) = x + GELU(eta). (Table 3 does not say so; one that stayed half as wide could not be
    added to x.) There is none of either attention without a ``squeeze`` or a ``temperature``.
    """

    def __init__(
        self, channels: int, squeeze: int | None, temperature: float | None, edges: bool = True
    ):
        super().__init__()
        width = channels if temperature is None else channels // 2
        self.sage = SageConvolution(channels, width, edges)
        self.channel_attention = ChannelSelfAttention(width, squeeze) if squeeze else None
        self.cross_attention = (
            ConfigurationCrossAttention(temperature) if temperature is not None else None
        )

    def forward(self, x: Tensor, sources: Tensor, pointers: Tensor) -> Tensor:
        """(nodes, configurations, channels) to the same shape."""
        eta = self.sage(instance_norm(x), sources, pointers)
        if self.channel_attention is not None:
            eta = self.channel_attention(eta)
        if self.cross_attention is not None:
            eta = torch.cat([eta, self.cross_attention(eta)], dim=-1)
        return x + gelu_dropout(eta, 0.0, self.training)


def instance_norm(x: Tensor) -> Tensor:
    """Zero mean and unit variance over the nodes, for each configuration and channel.

    With nodes outermost this is what batch normalization in training mode does to a matrix of
    (nodes, configurations * channels), in one fused pass: 4 to 8 times as fast as elementwise.
    A single node gives zeros.
    """
    if len(x) == 1:
        return x - x  # its own mean; batch_norm refuses a single value
    flat = nn.functional.batch_norm(x.flatten(1), None, None, training=True, eps=blocks_gpu.EPSILON)
    return flat.view_as(x)
