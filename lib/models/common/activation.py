"""GELU and dropout: one pass of a compiled loop on the CPU, torch's own two elsewhere."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lib import native


def gelu_dropout(x: Tensor, share: float, training: bool) -> Tensor:
    """dropout(GELU(x)), of any shape; the GELU is the exact one, by the normal distribution.

    On a CPU with ``lib.native`` it is the same function to rounding, several times as fast, and
    what is left out, a ``share`` of the numbers in training, is drawn from torch's generator in
    another way. All other numbers are scaled up by as much.
    """
    share = share if training else 0.0
    if native.takes(x):
        return _GeluDropout.apply(x, share)
    return nn.functional.dropout(nn.functional.gelu(x), share, training)


class _GeluDropout(torch.autograd.Function):
    """The compiled loop; of the way there, it keeps the slope."""

    @staticmethod
    def forward(ctx, x, share):
        """Numbers that are left out have a slope of zero."""
        out, slope = torch.ops.tgraph.gelu_dropout(x.contiguous(), share, ctx.needs_input_grad[0])
        ctx.save_for_backward(slope)
        return out

    @staticmethod
    def backward(ctx, gradient):
        """The gradient by x; the share has none."""
        (slope,) = ctx.saved_tensors
        return gradient * slope, None
