"""TGraph's blocks on a GPU: five kernels of our own around one matrix product a block.

What torch alone does in about thirty passes over (nodes, configurations, channels), these do in
five: instance norm; the product, which is cuBLAS'; the sum over neighbours; and per node L2 norm,
both attentions, GELU and residual. What is between is recomputed on the way back, from three
tensors a block. As on the CPU (common/fused.py), f1 and the part of f2 that reads neighbours are
one matrix, f2' f1.
"""

from __future__ import annotations

import functools
import importlib.util
import os
from typing import Any

import torch
from torch import Tensor, nn

from lib import native
from lib.models.common import fused
from lib.models.common.rows import GraphBatch

EPSILON = 1e-5  # under the root of instance normalization, torch's own default
PROGRAMS = 1056  # of the way back through a block's attentions: eight a multiprocessor of an H100
# Tiles of the kernels, and warps that share one.
EXPAND: dict[str, int] = {"BLOCK": 1024, "num_warps": 4}
EXPAND_BACKWARD = {"B": 32, "num_warps": 4}
NORM = {"ROWS": 64, "COLUMNS": 64, "num_warps": 4}
NORM_BACKWARD = {"ROWS": 64, "COLUMNS": 64, "num_warps": 4}
NEIGHBOURS = {"ROWS": 4, "BLOCK": 512, "num_warps": 4}
ATTEND = {"B": 16, "num_warps": 4}
ATTEND_BACKWARD = {"B": 16, "num_warps": 8}


@functools.cache
def available() -> bool:
    """Return whether Triton, which comes with torch for a GPU, is installed and may be used."""
    return os.environ.get(native.SWITCH) != "0" and importlib.util.find_spec("triton") is not None


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
        dtype: of activations and matrix products, float32 or bfloat16.
    """
    x = _Expand.apply(table, batch, dtype)
    for block in blocks:
        sage, gates = block.sage, block.channel_attention
        weights = (sage.message, sage.update, gates.excitation, gates.squeeze)
        flat = [tensor for layer in weights for tensor in (layer.weight, layer.bias)]
        x = _Block.apply(x, batch, *flat, block.cross_attention.log_temperature)
    return x.sum(dim=0, dtype=torch.float32) / len(x)


class _Expand(torch.autograd.Function):
    """Rows to (n, b, channels), as :func:`lib.models.common.rows.expand_rows`."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, batch: GraphBatch, dtype: torch.dtype) -> Tensor:
        """The batch is all that is kept."""
        from lib.models.common import kernels  # late: Triton is there on GPUs alone

        ctx.batch, (fixed, size) = batch, batch.cells.shape
        nodes, channels = batch.node_count, table.shape[1]
        x = table.new_empty((nodes, size, channels), dtype=dtype)
        kernels.expand[nodes, _parts(size * channels, EXPAND["BLOCK"])](
            table.contiguous(), batch.cells, x, size, size * channels, fixed, channels, **EXPAND
        )
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        """The gradient by the table."""
        from lib.models.common import kernels

        batch, (_, size, channels) = ctx.batch, gradient.shape
        by_table = gradient.new_empty((len(batch.nodes), channels), dtype=torch.float32)
        kernels.expand_backward[(len(batch.nodes),)](
            gradient.contiguous(), batch.cells, batch.nodes, by_table, size, len(batch.cells),
            channels, **EXPAND_BACKWARD,
        )  # fmt: skip
        return by_table, None, None


class _Block(torch.autograd.Function):
    """A block, (n, b, channels) to the same shape."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, batch: GraphBatch, *flat: Tensor) -> Tensor:
        """The normalized input, its scale, and the vectors before L2 norm are kept."""
        from lib.models.common import kernels

        message, message_bias, update, bias, *gate, log_t = flat
        (nodes, size, channels), width, dtype = x.shape, len(bias), x.dtype
        columns, rows = size * channels, nodes * size
        normal, scale = torch.empty_like(x), x.new_empty(columns, dtype=torch.float32)
        kernels.norm[(_parts(columns, NORM["COLUMNS"]),)](
            x, normal, scale, nodes, columns, EPSILON, **NORM
        )
        gathered = update[:, channels:]
        weight = torch.cat([update[:, :channels], gathered @ message]).to(dtype)
        products = normal.view(rows, channels) @ weight.T  # own, and those for neighbours
        pre = x.new_empty((rows, width))
        kernels.neighbour_sum[nodes, _parts(size * width, NEIGHBOURS["BLOCK"])](
            products[:, width:], 2 * width, products, pre, width, bias, gathered @ message_bias,
            batch.sources, batch.pointers, size, size * width, width, True, **NEIGHBOURS,
        )  # fmt: skip
        inverse_t, out = torch.exp(-log_t), torch.empty_like(x)
        kernels.attend[(nodes,)](
            pre, x, out, *gate, inverse_t, nodes, size, *_widths(gate), **ATTEND
        )
        ctx.batch = batch
        ctx.save_for_backward(normal, scale, weight, pre, inverse_t, *flat)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        """Gradients by x and by each weight."""
        from lib.models.common import kernels

        normal, scale, weight, pre, inverse_t, *flat = ctx.saved_tensors
        message, message_bias, update, bias, *gate, _ = flat
        batch, (nodes, size, channels), width = ctx.batch, normal.shape, len(bias)
        columns, rows = size * channels, nodes * size
        if gradient.stride()[1:] != (channels, 1):
            gradient = gradient.contiguous()
        apart = gradient.stride(0)  # 0 where it is the mean's, the same for all nodes
        squeezed, _, padded = widths = _widths(gate)
        programs = min(nodes, PROGRAMS)
        sizes = [width * padded, width * padded, width, width, width, padded, 1]
        partial = scale.new_empty((programs, sum(sizes)))
        by_products = normal.new_empty((rows, 2 * width))
        kernels.attend_backward[(programs,)](
            pre, gradient, apart, by_products, partial, *gate, inverse_t, batch.pointers, nodes,
            size, *widths, **ATTEND_BACKWARD,
        )  # fmt: skip
        sums = partial.sum(dim=0).split(sizes)
        kernels.neighbour_sum[nodes, _parts(size * width, NEIGHBOURS["BLOCK"])](
            by_products, 2 * width, by_products, by_products[:, width:], 2 * width, bias, bias,
            batch.sources, batch.pointers, size, size * width, width, False, **NEIGHBOURS,
        )  # fmt: skip
        flat_normal = normal.view(rows, channels)
        by_weight = (by_products.T @ flat_normal).to(update.dtype)
        by_normal = by_products @ weight
        by_x = torch.empty_like(normal)
        kernels.norm_backward[(_parts(columns, NORM_BACKWARD["COLUMNS"]),)](
            by_normal, normal, scale, gradient, apart, by_x, nodes, columns, **NORM_BACKWARD
        )
        by_first, by_second = (one.view(width, padded)[:, :squeezed] for one in sums[:2])
        by_own, by_gathered = by_weight.split(width)
        gathered = update[:, channels:]
        by_update = torch.empty_like(update)
        by_update[:, :channels] = by_own
        torch.addr(by_gathered @ message.T, sums[3], message_bias, out=by_update[:, channels:])
        by_message, by_message_bias = gathered.T @ by_gathered, gathered.T @ sums[3]
        return (
            *(by_x, None, by_message, by_message_bias, by_update, sums[2]),
            *(by_first.T, sums[5][:squeezed], by_second, sums[4], sums[6].view(())),
        )


def _widths(gate: Any) -> tuple[int, int, int]:
    """Return the widths of channel attention: squeezed, whole, and squeezed as kernels have it."""
    squeezed, width = gate[0].shape
    return squeezed, width, max(16, 1 << (squeezed - 1).bit_length())


def _parts(whole: int, part: int) -> int:
    return -(-whole // part)
