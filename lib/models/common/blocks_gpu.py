"""TGraph's blocks on a GPU: kernels of our own around one matrix product a block.

What torch alone does in about thirty passes over (nodes, configurations, channels), these do in
five: instance norm; the product, which is cuBLAS'; the sum over neighbours; and node by node L2
norm, both attentions, GELU and residual. Of a block two tensors are kept for the way back (its
normalized input, and the vectors before L2 norm); the rest is recomputed. As on the CPU
(common/fused.py), f1 and the part of f2 that reads neighbours are one matrix, f2' f1.
"""

from __future__ import annotations

import functools
import importlib.util
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lib import native
from lib.models.common import fused
from lib.models.common.rows import GraphBatch, Program

EPSILON = 1e-5  # under the root of instance normalization, torch's own default
PROGRAMS = 1056  # of the way back through a block's attentions: eight a multiprocessor of an H100
WEIGHTS = 9  # tensors a block
Weights = tuple[Tensor, ...]
# Tiles of the kernels, and the warps that share one: the fastest of a few on an H200.
EXPAND: dict[str, int] = {"BLOCK": 1024, "num_warps": 4}
EXPAND_BACKWARD = {"B": 32, "num_warps": 4}
NORM = {"ROWS": 64, "COLUMNS": 64, "num_warps": 8}
NORM_BACKWARD = {"ROWS": 64, "COLUMNS": 64, "num_warps": 4}
NEIGHBOURS = {"ROWS": 2, "BLOCK": 1024, "num_warps": 4}
ATTEND = {"B": 16, "num_warps": 4}
ATTEND_BACKWARD = {"B": 16, "num_warps": 4, "num_stages": 2}  # without spilling registers


@functools.cache
def available() -> bool:
    """Return whether Triton, which comes with torch for a GPU, is installed and may be used."""
    return native.wanted() and importlib.util.find_spec("triton") is not None


def supported(channels: int, block: nn.Module) -> bool:
    """Return whether the kernels are made for a ``GraphBlock`` of so many channels."""
    complete = block.channel_attention is not None and block.sage.message is not None
    return complete and fused.supported(channels, block)


def pooled(blocks: nn.ModuleList, table: Tensor, batch: GraphBatch, dtype: torch.dtype) -> Tensor:
    """Return the blocks' outcome, the mean over nodes: (b, channels) float32, differentiable.

    Args:
        blocks: ``GraphBlock`` that are :func:`supported`.
        table: (r, channels) float32, a vector for each of the batch's rows.
        batch: on the same device.
        dtype: of activations and matrix products, float32 or bfloat16. Sums, and gradients from
            block to block, are float32.
    """
    weights = [weight for block in blocks for weight in _weights(block)]
    return _Blocks.apply(table, batch, dtype, *weights)


def _weights(block: nn.Module) -> Weights:
    """Return a block's weights, in the order that :class:`_Blocks` takes them."""
    attention = block.channel_attention
    layers = block.sage.message, block.sage.update, attention.excitation, attention.squeeze
    flat = [tensor for layer in layers for tensor in (layer.weight, layer.bias)]
    return *flat, block.cross_attention.log_temperature


@dataclass
class _Kept:
    """What the way back through a block reads of what comes before attention.

    Attributes:
        normal: (n, b, channels), the normalized input.
        scale: (b * channels,) float32, 1 over the input's deviation.
        weight: (2 width, channels), of a node's own vector and of its neighbours'.
        pre: (n * b, width), vectors before L2 norm.
    """

    normal: Tensor
    scale: Tensor
    weight: Tensor
    pre: Tensor


class _Blocks(torch.autograd.Function):
    """:func:`pooled`, with a way back of its own."""

    @staticmethod
    def forward(
        ctx: Any, table: Tensor, batch: GraphBatch, dtype: torch.dtype, *flat: Tensor
    ) -> Tensor:
        """Block by block; of each, what the way back reads is kept."""
        ctx.batch = batch
        ctx.weights = [flat[at : at + WEIGHTS] for at in range(0, len(flat), WEIGHTS)]
        keep, ctx.kept = any(ctx.needs_input_grad), []
        x = _expanded(table, batch, dtype)
        for weights in ctx.weights:
            kept = _convolved(x, batch.program, weights)
            x, sums = _attended(x, kept.pre, weights)
            if keep:
                ctx.kept.append((kept, sums))
        return x.mean(dim=0, dtype=torch.float32)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        """Gradients by the table and each weight, the last block first."""
        if not ctx.kept:
            raise RuntimeError("a second backward pass: what it needs was freed by the first")
        gradient = gradient.contiguous() / ctx.batch.node_count
        apart, gradients = 0, ()  # pooled: the gradients of all nodes are the same
        for weights in reversed(ctx.weights):
            gradient, ours = _block_backward(gradient, apart, ctx.batch, weights, *ctx.kept.pop())
            apart, gradients = gradient.stride(0), ours + gradients
        return _expanded_backward(gradient, ctx.batch), None, None, *gradients


def _expanded(table: Tensor, batch: GraphBatch, dtype: torch.dtype) -> Tensor:
    """Return rows as (n, b, channels), as :func:`lib.models.common.rows.expand_rows`."""
    from lib.models.common import kernels  # late: Triton is there on GPUs alone

    (fixed, size), (nodes, channels) = batch.cells.shape, (batch.node_count, table.shape[1])
    x = table.new_empty((nodes, size, channels), dtype=dtype)
    columns = size * channels
    kernels.expand[nodes, _parts(columns, EXPAND)](
        table.contiguous(), batch.cells, x, size, columns, fixed, channels, **EXPAND
    )
    return x


def _expanded_backward(gradient: Tensor, batch: GraphBatch) -> Tensor:
    """Return the gradient by the table, (r, channels) float32."""
    from lib.models.common import kernels

    _, size, channels = gradient.shape
    by_table = gradient.new_empty((len(batch.nodes), channels))
    kernels.expand_backward[(len(batch.nodes),)](
        gradient, batch.cells, batch.nodes, by_table, size, len(batch.cells), channels,
        **EXPAND_BACKWARD,
    )  # fmt: skip
    return by_table


def _convolved(x: Tensor, program: Program, weights: Weights) -> _Kept:
    """Return what a block has of its input before attention, where no configuration sees another.

    What attention reads of it is ``pre``.
    """
    from lib.models.common import kernels

    message, message_bias, update, bias, *_ = weights
    (nodes, size, channels), width = x.shape, len(bias)
    normal, scale = torch.empty_like(x), x.new_empty(size * channels, dtype=torch.float32)
    kernels.norm[(_parts(len(scale), NORM),)](x, normal, scale, nodes, len(scale), EPSILON, **NORM)
    gathered = update[:, channels:]
    weight = torch.cat([update[:, :channels], gathered @ message]).to(x.dtype)
    products = normal.view(nodes * size, channels) @ weight.T  # own, and those for neighbours
    pre = x.new_empty((nodes * size, width))
    kernels.neighbour_sum[nodes, _parts(size * width, NEIGHBOURS)](
        products[:, width:], 2 * width, products, pre, width, bias, gathered @ message_bias,
        program.sources, program.pointers, size, size * width, width, True,
        **NEIGHBOURS,
    )  # fmt: skip
    return _Kept(normal, scale, weight, pre)


def _attended(
    x: Tensor, pre: Tensor, weights: Weights, group: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Return a block's output, (n, b, channels), and logarithms of what its softmax divides by,
    (n, width) float32.

    Args:
        x, pre: input, and what comes before attention, of all configurations.
        weights: of the block.
        group: (b,) int64, configurations that attend to each other; all of them by default.
    """
    from lib.models.common import kernels

    (nodes, stored, channels), (*gate, log_t) = x.shape, weights[4:]
    size = stored if group is None else len(group)
    out, sums = x.new_empty((nodes, size, channels)), log_t.new_empty((nodes, channels // 2))
    members = pre if group is None else group  # not read if there is none
    kernels.attend[(nodes,)](
        pre, x, members, out, sums, *gate, log_t, size, stored, group is not None, *_widths(gate),
        **ATTEND,
    )  # fmt: skip
    return out, sums


@dataclass(frozen=True)
class Shared:
    """The part of a graph's scores that does not depend on which configurations share a batch.

    Attributes:
        program: the graph's nodes.
        x: (n, b, channels), input of the first block.
        pre: (n * b, width), what the block has of it before attention.
        weights: of each block.
    """

    program: Program
    x: Tensor
    pre: Tensor
    weights: list[Weights]

    @torch.no_grad()
    def pooled(self, group: Tensor) -> Tensor:
        """Return :func:`pooled` of the configurations at ``group``, (b,) int64, as one batch."""
        x, _ = _attended(self.x, self.pre, self.weights[0], group)
        for weights in self.weights[1:]:
            x, _ = _attended(x, _convolved(x, self.program, weights).pre, weights)
        return x.mean(dim=0, dtype=torch.float32)


@torch.no_grad()
def share(blocks: nn.ModuleList, table: Tensor, batch: GraphBatch, dtype: torch.dtype) -> Shared:
    """Compute what all groupings of a batch's configurations have in common."""
    weights = [_weights(block) for block in blocks]
    x = _expanded(table, batch, dtype)
    return Shared(batch.program, x, _convolved(x, batch.program, weights[0]).pre, weights)


def _block_backward(
    gradient: Tensor, apart: int, batch: GraphBatch, weights: Weights, kept: _Kept, sums: Tensor
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Return gradients by a block's input, (n, b, channels) float32, and by each weight.

    Args:
        gradient: float32, by its output.
        apart: distance between two nodes of the gradient; 0 if all have the same.
        batch: which was computed.
        weights: of the block.
        kept, sums: of its way forward.
    """
    from lib.models.common import kernels

    message, message_bias, update, bias, *gate, log_t = weights
    (nodes, size, channels), width = kept.normal.shape, len(bias)
    squeezed, _, padded = widths = _widths(gate)
    sizes = [width * padded, width * padded, width, width, width, padded, 1]
    programs = min(nodes, PROGRAMS)
    partial = gradient.new_empty((programs, sum(sizes)))
    by_products = kept.normal.new_empty((nodes * size, 2 * width))
    kernels.attend_backward[(programs,)](
        kept.pre, sums, gradient, apart, by_products, partial, *gate, log_t,
        batch.program.pointers, nodes, size, *widths, **ATTEND_BACKWARD,
    )  # fmt: skip
    by_first, by_second, by_bias, by_degree_bias, by_squeeze, by_excitation, by_log_t = partial.sum(
        dim=0
    ).split(sizes)
    kernels.neighbour_sum[nodes, _parts(size * width, NEIGHBOURS)](
        by_products, 2 * width, by_products, by_products[:, width:], 2 * width, bias, bias,
        batch.program.sources, batch.program.pointers, size, size * width, width, False,
        **NEIGHBOURS,
    )  # fmt: skip
    normal = kept.normal.view(nodes * size, channels)
    by_own, by_both = (by_products.T @ normal).to(update.dtype).split(width)
    by_normal, by_x = by_products @ kept.weight, gradient.new_empty(kept.normal.shape)
    kernels.norm_backward[(_parts(size * channels, NORM_BACKWARD),)](
        by_normal, kept.normal, kept.scale, gradient, apart, by_x, nodes, size * channels,
        **NORM_BACKWARD,
    )  # fmt: skip
    gathered = update[:, channels:]
    by_gathered = torch.addr(by_both @ message.T, by_degree_bias, message_bias)
    return by_x, (
        *(gathered.T @ by_both, gathered.T @ by_degree_bias),
        *(torch.cat([by_own, by_gathered], dim=1), by_bias),
        *(by_first.view(padded, width)[:squeezed], by_excitation[:squeezed]),
        *(by_second.view(padded, width)[:squeezed].T, by_squeeze),
        by_log_t.view(()),
    )


def _widths(gate: Any) -> tuple[int, int, int]:
    """Return the widths of channel attention: squeezed, whole, and squeezed as kernels have it."""
    squeezed, width = gate[0].shape
    return squeezed, width, max(16, 1 << (squeezed - 1).bit_length())


def _parts(columns: int, tiles: dict[str, int]) -> int:
    return -(-columns // tiles.get("BLOCK", tiles.get("COLUMNS", 1)))
