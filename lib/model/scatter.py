"""Sums over a node's neighbours: the one place that chooses who adds them up.

``torch_scatter`` where it is built for the device, else torch's own segment reduction; both give
the same sums, in the same order.
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
    gathered = messages.index_select(0, sources)
    if has_torch_scatter(messages.device.type):
        return torch_scatter.segment_csr(gathered, pointers, reduce="sum")
    return native_segment_sum(gathered, pointers)


def native_segment_sum(gathered: Tensor, pointers: Tensor) -> Tensor:
    """``torch_scatter.segment_csr(..., reduce="sum")`` by torch alone."""
    flat = gathered.flatten(1) if gathered.ndim > 1 else gathered[:, None]
    sums = torch.segment_reduce(flat, "sum", offsets=pointers, axis=0, unsafe=True, initial=0)
    return sums.view(len(pointers) - 1, *gathered.shape[1:])
