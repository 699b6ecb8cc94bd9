"""TGraph's blocks by the compiled loops of ``lib.native``: the same function, a few times faster.

What the plain network does in about twenty passes over (nodes, configurations, channels), these do
in two. Up to the attention across configurations, a block treats every configuration by itself:
one at a time goes through instance norm, GraphSAGE, L2 norm and channel attention while it is in
cache. Then one node at a time, under all configurations, goes through the softmax, GELU and the
residual. Of a block only four things are kept for the way back (its input, the unit vectors before
channel attention, the gated ones after it, and the moments of the norm); the rest is recomputed.

Messages are linear in a node's vector and so is what is done with their sum, so that f1 and the
part f2' of f2 that reads it are one matrix, f2' f1, and the bias becomes degree * f2' b1. That
spares one of GraphSAGE's three products.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from lib.models.common.rows import GraphBatch

HALVES = (32, 64, 128)  # half the channels: what the loops are compiled for
LARGEST_SQUEEZED = 16
OPEN = 30.0  # a gate's logit whose sigmoid is 1 in float32
WHOLE, POOLED, SECOND = 0, 1, 2  # outcomes of cross_forward


def supported(channels: int, block: nn.Module) -> bool:
    """Return whether the loops are made for a ``GraphBlock`` of so many channels in the stream."""
    attention = block.channel_attention
    squeezed = 1 if attention is None else attention.excitation.out_features
    return (
        block.cross_attention is not None
        and channels % 2 == 0
        and channels // 2 in HALVES
        and squeezed <= LARGEST_SQUEEZED
    )


@dataclass(frozen=True)
class Cells:
    """Places of the vector of each (configuration, node), and the nodes' neighbours, as int32.

    Attributes:
        rows: (b, n), rows of the table that :class:`lib.models.common.rows.RowVectors` makes.
        sources: (e,), neighbours of node 0, then of node 1, ...
        pointers: (n + 1,), where each node's neighbours start in ``sources``.
    """

    rows: Tensor
    sources: Tensor
    pointers: Tensor


def cells_of(batch: GraphBatch) -> Cells:
    """The cells of a batch: configurable nodes first, as everywhere."""
    configurable, configurations = batch.cells.shape
    fixed = torch.arange(batch.node_count - configurable).expand(configurations, -1)
    rows = torch.cat([batch.cells.T, fixed], dim=1).int()
    return Cells(rows.contiguous(), batch.program.sources.int(), batch.program.pointers.int())


def pooled(blocks: nn.ModuleList, table: Tensor, cells: Cells, dtype: torch.dtype) -> Tensor:
    """The blocks and the mean over nodes: (b, channels) float32, differentiable.

    Matrix products, and what is kept, are of type ``dtype``: float32 or bfloat16.
    """
    weights = [tensor for block in blocks for tensor in block_weights(block, dtype)]
    return _Blocks.apply(table, cells, *weights)


def block_weights(block: nn.Module, dtype: torch.dtype) -> tuple[Tensor, ...]:
    """A block's weights as the loops take them, in the order of ``WEIGHTS``."""
    weight, degree_bias = _sage_weights(block.sage)
    return (
        weight.to(dtype),
        block.sage.update.bias,
        degree_bias,
        *_gate_weights(block.channel_attention, degree_bias),
        torch.exp(-block.cross_attention.log_temperature),
    )


def _sage_weights(sage: nn.Module) -> tuple[Tensor, Tensor]:
    """(2 width, channels) and, per neighbour, (width,); zeros for neighbours without messages."""
    width = sage.update.out_features
    if sage.message is None:
        node_weight = sage.update.weight
        return torch.cat([node_weight, torch.zeros_like(node_weight)]), node_weight.new_zeros(width)
    node_weight, gathered = sage.update.weight.split([sage.message.in_features, width], dim=1)
    return torch.cat([node_weight, gathered @ sage.message.weight]), gathered @ sage.message.bias


def _gate_weights(attention: nn.Module | None, like: Tensor) -> tuple[Tensor, ...]:
    """Weights of channel attention; where there is none, of gates that are open, of the type and
    width of ``like``."""
    if attention is None:
        width = len(like)
        excitation = like.new_zeros((1, width)), like.new_zeros(1)
        return *excitation, like.new_zeros((width, 1)), like.new_full((width,), OPEN)
    first, second = attention.excitation, attention.squeeze
    return first.weight, first.bias, second.weight, second.bias


WEIGHTS = 8  # tensors a block


class _Blocks(torch.autograd.Function):
    """:func:`pooled`, with the way back in compiled loops as well."""

    @staticmethod
    def forward(ctx: Any, table: Tensor, cells: Cells, *weights: Tensor) -> Tensor:
        """Block by block; of each, what the way back reads is kept."""
        keep = any(ctx.needs_input_grad)
        ctx.cells, ctx.kept, ctx.weights = cells, [], _by_block(weights)
        x, rows = table, cells.rows
        for number, (weight, bias, degree_bias, *gate, inverse_t) in enumerate(ctx.weights, 1):
            graph = (cells.sources, cells.pointers)
            y, norms, eta, mean, scale = torch.ops.tgraph.local_forward(
                x, rows, *graph, weight, None, None, bias, degree_bias, *gate, keep
            )
            if keep:
                ctx.kept.append((x, rows, y, norms, eta, mean, scale))
            outcome = POOLED if number == len(ctx.weights) else WHOLE
            x = torch.ops.tgraph.cross_forward(x, rows, eta, None, inverse_t, outcome)
            rows = None
        return x

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        """Gradients by the table and each weight, the last block first."""
        if not ctx.kept:
            raise RuntimeError("a second backward pass: what it needs was freed by the first")
        gradient = gradient.contiguous() / ctx.cells.rows.shape[1]  # pooled: the mean over nodes
        gradients: list[Tensor] = []
        for weights in reversed(ctx.weights):
            weight, _, _, *gate, inverse_t = weights
            x, rows, y, norms, eta, mean, scale = ctx.kept.pop()  # freed as soon as it was used
            eta_gradient, by_log_t = torch.ops.tgraph.cross_backward(gradient, eta, inverse_t)
            gradient, by_weight, *rest = torch.ops.tgraph.local_backward(
                eta_gradient, gradient, x, rows, ctx.cells.sources, ctx.cells.pointers,
                weight, *gate, y, norms, mean, scale,
            )  # fmt: skip
            by_inverse = -by_log_t / inverse_t  # inverse_t = exp(-log temperature)
            gradients = [by_weight.to(weight.dtype), *rest, by_inverse, *gradients]
        return gradient, None, *gradients


def _by_block(weights: tuple[Tensor, ...]) -> list[tuple[Tensor, ...]]:
    """The flat arguments of the function, in the memory order that the loops read."""
    flat = [tensor.detach().contiguous() for tensor in weights]
    return [tuple(flat[at : at + WEIGHTS]) for at in range(0, len(flat), WEIGHTS)]


@dataclass(frozen=True)
class Shared:
    """The part of a graph's scores by two blocks that does not depend on the batch.

    Everything up to the first attention across configurations; and half of the second block's
    matrix product, since the first half of its input channels is x + GELU(eta).

    Attributes:
        table: (r, channels) float32.
        cells: of all configurations.
        eta: (b, n, channels / 2), first block.
        mean: (b, channels / 2) float32, of the second block's first channels.
        products: (b, n, channels) of those channels with the second block's weights.
        weights: of each block.
    """

    table: Tensor
    cells: Cells
    eta: Tensor
    mean: Tensor
    products: Tensor
    weights: list[tuple[Tensor, ...]]

    @torch.no_grad()
    def pooled(self, group: Tensor) -> Tensor:
        """Return :func:`pooled` of the configurations at ``group``, (b,) int64, as one batch."""
        table, rows, eta = self.table, self.cells.rows, self.eta
        weight, bias, degree_bias, *gate, inverse_t = self.weights[1]
        x = torch.ops.tgraph.cross_forward(table, rows, eta, group, self.weights[0][-1], SECOND)
        graph = (self.cells.sources, self.cells.pointers)
        second = weight[:, eta.shape[-1] :].contiguous()
        _, _, eta, mean, _ = torch.ops.tgraph.local_forward(
            x, None, *graph, second, self.products, group, bias, degree_bias, *gate, False
        )
        activated = torch.ops.tgraph.cross_forward(None, None, eta, None, inverse_t, POOLED)
        return torch.cat([self.mean[group], mean], dim=1) + activated


@torch.no_grad()
def share(blocks: nn.ModuleList, table: Tensor, cells: Cells, dtype: torch.dtype) -> Shared:
    """Compute what all groupings of a graph's configurations have in common."""
    weights = _by_block(tuple(t for block in blocks for t in block_weights(block, dtype)))
    weight, bias, degree_bias, *gate, _ = weights[0]
    graph = (cells.sources, cells.pointers)
    _, _, eta, _, _ = torch.ops.tgraph.local_forward(
        table, cells.rows, *graph, weight, None, None, bias, degree_bias, *gate, False
    )
    first = weights[1][0][:, : eta.shape[-1]].contiguous()
    mean, products = torch.ops.tgraph.first_half(table, cells.rows, eta, first)
    return Shared(table, cells, eta, mean, products, weights)
