"""Transposed convolutions as ordinary ones, without zeros between their inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from tvm import relax

CONVOLUTIONS = {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d}  # by their number of dimensions
LAYOUTS = {1: ("NWC", "WIO"), 2: ("NHWC", "HWIO")}


def transposed(call: relax.Call) -> relax.Expr:
    """Return a transposed convolution, channels last, as an ordinary one and a change of places.

    Result ``stride * m + r`` is the sum over q of input ``m - q`` times ``stride * q + r`` of the
    kernel. So one convolution computes all r as channels of their own, which then become places.
    TVM itself would put zeros between the inputs, and multiply by these.
    """
    x, how, rank = call.args[0], call.attrs, len(call.ty.shape) - 2
    batch, *inputs, _ = whole(x.ty.shape)
    _, *results, outputs = whole(call.ty.shape)
    strides, groups = whole(how.strides), int(how.groups)
    weight, kernel = _side_by_side(call.args[1], whole(how.dilation), strides, groups)

    # Only those places are computed that are not cut off as padding.
    padding = np.array(whole(how.padding)[:rank])
    first = np.minimum(padding // strides, np.subtract(kernel, 1))
    begin = padding - first * strides
    before = np.subtract(kernel, 1) - first
    after = np.maximum(0, -(-(begin + results) // strides) + first - inputs)
    places = (inputs + before + after - kernel + 1).tolist()

    layout, weights = LAYOUTS[rank]
    how = {"groups": groups, "data_layout": layout, "kernel_layout": weights}
    y = CONVOLUTIONS[rank](x, weight, padding=[*before.tolist(), *after.tolist()], **how)
    y = relax.op.reshape(y, [batch, *places, groups, *strides, outputs // groups])
    if rank > 1 or groups > 1:
        pairs = _in_turns(range(1, 1 + rank), range(2 + rank, 2 + 2 * rank))
        y = relax.op.permute_dims(y, [0, *pairs, 1 + rank, 2 + 2 * rank])
    sizes = np.multiply(places, strides).tolist()
    y = relax.op.reshape(y, [batch, *sizes, outputs])
    if sizes == results:
        return y
    end = (begin + results).tolist()
    return relax.op.strided_slice(y, [*range(1, 1 + rank)], begin.tolist(), end)


def _side_by_side(
    weight: relax.Expr, dilations: Sequence[int], strides: Sequence[int], groups: int
) -> tuple[relax.Expr, list[int]]:
    """Return the weights of the ordinary convolution, and the sizes of its kernel.

    Args:
        weight: (*kernel, inputs, outputs of a group).
        dilations: of the kernel, between whose numbers zeros are put.
        strides: of the transposed convolution.
        groups: of channels.
    """
    *kernel, inputs, outputs = whole(weight.ty.shape)
    rank, channels = len(kernel), [0] * 4
    if max(dilations) > 1:
        zeros = _in_turns([0] * rank, np.subtract(dilations, 1).tolist())
        weight = relax.op.reshape(weight, [*_in_turns(kernel, [1] * rank), inputs, outputs])
        weight = relax.op.nn.pad(weight, [*_in_turns([0] * 2 * rank, zeros), *channels])
        kernel = np.multiply(kernel, dilations).tolist()
        weight = relax.op.reshape(weight, [*kernel, inputs, outputs])
    counts = [-(-size // stride) for size, stride in zip(kernel, strides, strict=True)]
    missing = np.multiply(counts, strides) - kernel
    weight = relax.op.nn.pad(weight, [*_in_turns([0] * rank, missing.tolist()), *channels])
    shape = [*_in_turns(counts, strides), groups, inputs // groups, outputs]
    order = [*range(0, 2 * rank, 2), 2 * rank + 1, 2 * rank, *range(1, 2 * rank, 2), 2 * rank + 2]
    weight = relax.op.permute_dims(relax.op.reshape(weight, shape), order)
    outputs *= groups * math.prod(strides)
    weight = relax.op.reshape(weight, [*counts, inputs // groups, outputs])
    for axis in range(rank):
        weight = relax.op.flip(weight, axis)
    return weight, counts


def _in_turns(left: Iterable[int], right: Iterable[int]) -> list[int]:
    return [number for pair in zip(left, right, strict=True) for number in pair]


def whole(numbers: Iterable) -> list[int]:
    """Return whole numbers of TVM as Python has them."""
    return [int(number) for number in numbers]
