"""CUDA graphs of a network: its kernels are recorded once for a shape, and launched as one.

A step of ``tgraph`` has a hundred small kernels, which a GPU runs in 2 ms, and a CPU needs 8 ms to
launch one by one. ``TGRAPH_GPU_GRAPHS=1`` has them recorded. It is no default: no GPU has tried it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lib import native
from lib.models.common.rows import GraphBatch

LARGEST = 1 << 18  # cells of a batch; with more of them it is the GPU that is waited for
MOST = 1024  # shapes that are recorded; batches of others are launched kernel by kernel


class Replays:
    """A network's function of a batch, by CUDA graphs for shapes that come a second time.

    What it returns, and gradients, are copies, so that they may be kept. All recorded graphs work
    in the same memory: while a batch waits for its gradient, others are launched kernel by kernel.

    Args:
        network: whose weights the function reads, all of them.
        compute: the function, of a batch on the network's device to a tensor.
    """

    def __init__(self, network: nn.Module, compute: Callable[[GraphBatch], Tensor]):
        self.network, self.compute = network, compute
        self.recorded: dict[Any, _Recorded | None] = {}
        self.pool: Any = None
        self.waiting: Callable[[], Any] = lambda: None

    def __call__(self, batch: GraphBatch) -> Tensor:
        """Return ``compute(batch)``."""
        configurable, size = batch.cells.shape
        small = configurable and batch.node_count * size <= LARGEST
        if not native.wants_gpu_graphs() or not small or self.waiting() is not None:
            return self.compute(batch)
        weights = list(self.network.parameters())
        key = self._key(batch, weights[0])
        if key not in self.recorded:  # now kernels are compiled, if they have to be
            if len(self.recorded) < MOST:
                self.recorded[key] = None
            return self.compute(batch)
        recorded = self.recorded[key]
        if recorded is None:
            self.pool = self.pool or torch.cuda.graph_pool_handle()
            recorded = self.recorded[key] = _Recorded(self.compute, batch, weights, self.pool)
        if not torch.is_grad_enabled():
            return recorded.forward(batch)
        way = _Way(recorded)
        self.waiting = weakref.ref(way)
        return _Replayed.apply(way, batch, *weights)

    def _key(self, batch: GraphBatch, some: Tensor) -> tuple:
        """Return what a recorded graph does for: tensors at those places, of those shapes."""
        place = batch.program.features.data_ptr()
        shapes = padded(len(batch.nodes)), *batch.cells.shape
        modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), self.network.training
        return place, *shapes, *modes, self.network.precision, some.data_ptr()


class _Recorded:
    """The recorded way of a batch forward, and back where gradients are wanted.

    The next batch may have fewer rows: those after them are of earlier ones, and no cell has them.
    """

    def __init__(
        self,
        compute: Callable[[GraphBatch], Tensor],
        batch: GraphBatch,
        weights: list[nn.Parameter],
        pool: Any,
    ):
        self.batch = batch.with_rows(padded(len(batch.nodes)))
        self.ahead, self.back = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.ahead, pool=pool):
            self.output = compute(self.batch)
        self.sizes, self.shapes = [w.numel() for w in weights], [w.shape for w in weights]
        if torch.is_grad_enabled():
            self.gradient = torch.zeros_like(self.output)
            with torch.cuda.graph(self.back, pool=pool):
                found = torch.autograd.grad(self.output, weights, self.gradient)
                self.found = torch.cat([gradient.flatten() for gradient in found])

    def forward(self, batch: GraphBatch) -> Tensor:
        """Return the function of a batch."""
        for name in ("nodes", "codes", "cells", "physics"):
            if (value := getattr(batch, name)) is not None:
                getattr(self.batch, name)[: len(value)].copy_(value)
        self.ahead.replay()
        return self.output.detach().clone()

    def backward(self, gradient: Tensor) -> list[Tensor]:
        """Return the gradients by the weights; ``gradient`` is by the output of :meth:`forward`."""
        self.gradient.copy_(gradient)
        self.back.replay()
        parts = self.found.clone().split(self.sizes)
        return [part.view(shape) for part, shape in zip(parts, self.shapes, strict=True)]


class _Way:
    """A batch on its way, until its gradient was computed or nobody can ask for it anymore."""

    def __init__(self, recorded: _Recorded):
        self.recorded = recorded


class _Replayed(torch.autograd.Function):
    """A recorded graph, to torch's own autograd."""

    @staticmethod
    def forward(ctx: Any, way: _Way, batch: GraphBatch, *weights: Tensor) -> Tensor:
        """The way is all that is kept."""
        ctx.way = way
        return way.recorded.forward(batch)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:
        """Gradients by the weights."""
        if ctx.way is None:
            raise RuntimeError("a second backward pass: what it needs was freed by the first")
        gradients = ctx.way.recorded.backward(gradient)
        ctx.way = None
        return None, None, *gradients


def padded(rows: int) -> int:
    """Return how many rows are recorded for some: up to an eighth more, so that few shapes do."""
    step = max(64, 1 << max(0, rows.bit_length() - 4))
    return -(-rows // step) * step
