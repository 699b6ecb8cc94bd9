"""Sums over a node's neighbours: the one place that chooses who adds them up.

``torch_scatter`` where it is built for the device (make builds it for networks and devices that
gain by it), else torch's own segment reduction; both give the same sums, in the same order.
"""

from __future__ import annotations

import functools

import torch
from torch import Tensor

try:
    import torch_scatter
except (ImportError, OSError):  # not installed, or built against another torch
    torch_scatter = None


@functools.cache
def has_torch_scatter(device_type: str) -> bool:
    """Whether ``torch_scatter`` works on ``cpu`` or ``cuda`` tensors here."""
    if torch_scatter is None:
        return False
    return device_type == "cpu" or torch.ops.torch_scatter.cuda_version() != -1


def neighbour_sum(messages: Tensor, sources: Tensor, pointers: Tensor) -> Tensor:
    """Sum of the messages of each node's neighbours.

    Args:
        messages: (n, ...) one message a node.
        sources: (e,) int64, neighbours of node 0, then of node 1, ...
        pointers: (n + 1,) int64, where each node's neighbours start.

    Returns:
        (n, ...); zero for a node without neighbours.
    """
    return segment(messages.index_select(0, sources), pointers, "sum")


def added_at(total: Tensor, values: Tensor, places: Tensor) -> Tensor:
    """Rows with values added: at (p, 2) int64 places [row of ``total``, row of ``values``].

    Args:
        total: (n, ...).
        values: (m, ...).
        places: see above.
    """
    return total.index_add(0, places[:, 0], values.index_select(0, places[:, 1]))


def segment(values: Tensor, pointers: Tensor, reduce: str) -> Tensor:
    """One value for each run of rows.

    Args:
        values: (e, ...).
        pointers: (n + 1,) int64, where each run starts.
        reduce: ``sum``, ``mean`` or ``max``.

    Returns:
        (n, ...); zero for an empty run.
    """
    if has_torch_scatter(values.device.type):
        return torch_scatter.segment_csr(values, pointers, reduce=reduce)
    return torch_segment(values, pointers, reduce)


def torch_segment(values: Tensor, pointers: Tensor, reduce: str) -> Tensor:
    """:func:`segment` by torch alone."""
    flat = values.flatten(1) if values.ndim > 1 else values[:, None]
    found = torch.segment_reduce(flat, reduce, offsets=pointers, axis=0, unsafe=True)
    empty = (pointers.diff() == 0)[:, None]
    return found.masked_fill(empty, 0).view(len(pointers) - 1, *values.shape[1:])


def targets(pointers: Tensor) -> Tensor:
    """The run that each row is in, (e,) int64."""
    runs = torch.arange(len(pointers) - 1, device=pointers.device)
    return runs.repeat_interleave(pointers.diff())


def segment_softmax(values: Tensor, pointers: Tensor) -> Tensor:
    """Softmax over each run of rows.

    Args:
        values: (e, ...).
        pointers: (n + 1,) int64, where each run starts; together they hold all rows.

    Returns:
        (e, ...); the rows of a run sum to 1. The largest of a run is taken off first, so that no
        exponential overflows; that changes nothing, and no gradient flows through it.
    """
    run = targets(pointers)
    with torch.no_grad():
        largest = segment(values, pointers, "max").index_select(0, run)
    powers = torch.exp(values - largest)
    return powers / segment(powers, pointers, "sum").index_select(0, run)


def weighted_sum(values: Tensor, weights: Tensor, sources: Tensor, pointers: Tensor) -> Tensor:
    """Sum of each node's neighbours, every head's with a weight of its own.

    What is gathered from the neighbours, the largest tensor of all, is not kept for the way back
    but gathered again.

    Args:
        values: (m, b, heads, width).
        weights: (e, b, heads), of the neighbours in ``sources``.
        sources: (e,) int64, rows of ``values``: neighbours of node 0, then of node 1, ...
        pointers: (n + 1,) int64, where each node's neighbours start.

    Returns:
        (n, b, heads, width).
    """
    return _WeightedSum.apply(values, weights, sources, pointers)


class _WeightedSum(torch.autograd.Function):
    """:func:`weighted_sum`, whose backward pass gathers anew, to keep nothing gathered."""

    @staticmethod
    def forward(ctx, values, weights, sources, pointers):
        """The sums; the arguments are all that is kept."""
        ctx.save_for_backward(values, weights, sources, pointers)
        gathered = values.index_select(0, sources)
        return segment(gathered.mul_(weights[..., None]), pointers, "sum")

    @staticmethod
    def backward(ctx, gradient):
        """Gradients by values and weights; the graph has none."""
        values, weights, sources, pointers = ctx.saved_tensors
        spread = gradient.index_select(0, targets(pointers))  # (e, b, heads, width)
        by_weight = values.index_select(0, sources).mul_(spread).sum(dim=-1)
        spread.mul_(weights[..., None])
        by_value = torch.zeros_like(values).index_add_(0, sources, spread)
        return by_value, by_weight, None, None
