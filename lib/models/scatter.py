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
    reduced = torch.segment_reduce(flat, reduce, offsets=pointers, axis=0, unsafe=True)
    empty = (pointers.diff() == 0)[:, None]
    return reduced.masked_fill(empty, 0).view(len(pointers) - 1, *values.shape[1:])


def targets(pointers: Tensor) -> Tensor:
    """The run that each row is in, (e,) int64."""
    runs = torch.arange(len(pointers) - 1, device=pointers.device)
    return runs.repeat_interleave(pointers.diff())
