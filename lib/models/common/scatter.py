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
    """Return whether ``torch_scatter`` works on ``cpu`` or ``cuda`` tensors here."""
    if torch_scatter is None:
        return False
    return device_type == "cpu" or torch.ops.torch_scatter.cuda_version() != -1


def neighbour_sum(messages: Tensor, sources: Tensor, pointers: Tensor) -> Tensor:
    """Return the sum of the (n, ...) messages of each node's neighbours; zero for a node without
    any.

    Neighbours, (e,) int64, are those of node 0, then of node 1, ..., which start at the pointers.
    They are as :func:`lib.cache.graph.neighbours` has them: who is a node's neighbour has it for
    one, too, each once and in ascending order.
    """
    return _NeighbourSum.apply(messages, sources, pointers)


class _NeighbourSum(torch.autograd.Function):
    """:func:`neighbour_sum`; neighbours being mutual, its gradient is summed in the same way.

    In float32 it is the same to the bit as that of torch on the CPU. On a GPU, torch's own is by
    atomic operations, which come in any order.
    """

    @staticmethod
    def forward(ctx, messages, sources, pointers):
        """The neighbours are all that is kept."""
        ctx.save_for_backward(sources, pointers)
        return segment(messages.index_select(0, sources), pointers, "sum")

    @staticmethod
    def backward(ctx, gradient):
        """The gradient by the messages; the graph has none."""
        sources, pointers = ctx.saved_tensors
        return segment(gradient.index_select(0, sources), pointers, "sum"), None, None


def segment(values: Tensor, pointers: Tensor, reduce: str) -> Tensor:
    """Return the ``sum``, ``mean`` or ``max`` of each run of (e, ...) rows, (n, ...).

    Runs start at the (n + 1,) pointers; an empty run gives 0. The gradient of a maximum is shared
    evenly by all rows that have it.
    """
    if reduce != "max" and has_torch_scatter(values.device.type):
        return torch_scatter.segment_csr(values, pointers, reduce=reduce)
    return torch_segment(values, pointers, reduce)


def torch_segment(values: Tensor, pointers: Tensor, reduce: str) -> Tensor:
    """Return :func:`segment` by torch alone.

    The backward pass of its ``segment_reduce`` shares a maximum's gradient only if that is positive
    (torch 2.13), so ``scatter_reduce`` takes maxima.
    """
    flat = values.flatten(1) if values.ndim > 1 else values[:, None]
    if reduce == "max":
        empty = flat.new_zeros(len(pointers) - 1, flat.shape[1])
        runs = targets(pointers, len(flat))[:, None].expand_as(flat)
        reduced = empty.scatter_reduce(0, runs, flat, "amax", include_self=False)
    else:
        reduced = torch.segment_reduce(flat, reduce, offsets=pointers, axis=0, unsafe=True)
        if reduce == "mean":  # which is NaN of an empty run
            reduced = reduced.masked_fill((pointers.diff() == 0)[:, None], 0)
    return reduced.view(len(pointers) - 1, *values.shape[1:])


def targets(pointers: Tensor, rows: int) -> Tensor:
    """Return the run that each of all ``rows`` is in, (e,) int64."""
    runs = torch.arange(len(pointers) - 1, device=pointers.device)
    return runs.repeat_interleave(pointers.diff(), output_size=rows)  # known: no GPU is waited for
