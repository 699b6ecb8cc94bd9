"""Transposed convolutions as ordinary ones or products, without zeros between their inputs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.ir import GenericConst

# By the number of dimensions.
CONVOLUTIONS = {1: relax.op.nn.conv1d, 2: relax.op.nn.conv2d, 3: relax.op.nn.conv3d}
LAYOUTS = {1: ("NWC", "WIO"), 2: ("NHWC", "HWIO"), 3: ("NDHWC", "DHWIO")}
MOST = 1.1  # times as many multiplications as there have to be


def transposed(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Return a transposed convolution, channels last, as an ordinary one and a change of places; as
    products and sums of these if that takes fewer multiplications, or of a volume.

    Result ``stride * m + r`` is the sum over q of input ``m - q`` times ``stride * q + r`` of the
    kernel. So one convolution computes all r as channels of their own, which then become places.
    TVM itself would put zeros between the inputs, and multiply by these.
    """
    (x, weight), how, rank = call.args, call.attrs, len(call.ty.shape) - 2
    batch, *inputs, _ = whole(x.ty.shape)
    _, *results, outputs = whole(call.ty.shape)
    strides, dilation, groups = whole(how.strides), whole(how.dilation), int(how.groups)
    needed = math.prod([*inputs, *whole(weight.ty.shape)[:rank]])  # of a pair of channels
    beside, kernel = _side_by_side(weight, dilation, strides, groups)

    # Only those places are computed that are not cut off as padding.
    padding = np.array(whole(how.padding)[:rank])
    first = np.minimum(padding // strides, np.subtract(kernel, 1))
    begin = padding - first * strides
    before = np.subtract(kernel, 1) - first
    after = np.maximum(0, -(-(begin + results) // strides) + first - inputs)
    places = (inputs + before + after - kernel + 1).tolist()
    most = MOST * needed * (rank < 3)
    if {groups, *dilation} == {1} and math.prod([*places, *kernel, *strides]) > most:
        return _of_products(builder, x, weight, how, [batch, *results, outputs])

    layout, weights = LAYOUTS[rank]
    how = {"groups": groups, "data_layout": layout, "kernel_layout": weights}
    y = CONVOLUTIONS[rank](x, beside, padding=[*before.tolist(), *after.tolist()], **how)
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


def _of_products(
    builder: relax.BlockBuilder, x: relax.Expr, weight: relax.Expr, how: Any, shape: list[int]
) -> relax.Expr:
    """Return each input times the whole kernel, added where it belongs; channels are last."""
    batch, *inputs, channels = whole(x.ty.shape)
    *kernel, _, outputs = whole(weight.ty.shape)
    rank = len(kernel)
    x = relax.op.reshape(x, [batch * math.prod(inputs), channels])
    weight = relax.op.permute_dims(weight, [rank, *range(rank), rank + 1])
    weight = relax.op.reshape(weight, [channels, math.prod(kernel) * outputs])
    y = builder.emit(relax.op.matmul(x, weight))
    y = builder.emit(relax.op.reshape(y, [batch, *inputs, *kernel, outputs]))
    return builder.call_te(_added, y, whole(how.strides), whole(how.padding)[:rank], shape)


def _added(
    products: te.Tensor, strides: Sequence[int], padding: Sequence[int], shape: Sequence[int]
) -> te.Tensor:
    """Return a transposed convolution of this shape from (batch, *inputs, *kernel, outputs), the
    products of each input with the kernel; ``padding`` is what is cut off."""
    rank = len(strides)
    sizes, kernel = whole(products.shape)[1 : 1 + rank], whole(products.shape)[1 + rank : -1]

    def terms(k: int, place: tirx.Var) -> list[tuple[tirx.PrimExpr, ...]]:
        """Return what is summed along a dimension: an input, a number of the kernel, and whether
        both are there."""
        turn, first = (place + padding[k]) // strides[k], (place + padding[k]) % strides[k]
        found = [(turn - n, first + n * strides[k]) for n in range(-(-kernel[k] // strides[k]))]
        return [(i, q, tirx.all(i >= 0, i < sizes[k], q < kernel[k])) for i, q in found]

    def result(batch: tirx.Var, *places: tirx.Var) -> tirx.PrimExpr:
        """Return a number of the result: what each combination of terms adds to it."""
        *places, channel = places
        sums = []
        for parts in product(*map(terms, range(rank), places)):
            i, q, there = zip(*parts, strict=True)
            ends = zip((*i, *q), (*sizes, *kernel), strict=True)
            near = [tirx.max(0, tirx.min(n, size - 1)) for n, size in ends]
            sums.append(tirx.Select(tirx.all(*there), products[batch, *near, channel], 0.0))
        return sum(sums[1:], sums[0])

    return te.compute(shape, result, name="added")


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


def filled_up(x: relax.Expr, more: Mapping[int, int]) -> relax.Expr:
    """Return a tensor with so many zeros at the end of each of some axes."""
    sides = [0] * 2 * len(x.ty.shape)
    for axis, count in more.items():
        sides[2 * (axis % len(x.ty.shape)) + 1] = count
    if isinstance(x, GenericConst):  # TVM would do it in each run
        pairs = np.reshape(sides, (-1, 2)).tolist()
        return relax.const(np.pad(x.value.numpy(), pairs), str(x.ty.dtype))
    return relax.op.nn.pad(x, sides)


def convolved_as(
    call: relax.Call, x: relax.Expr, weight: relax.Expr, **other: int | list[int]
) -> relax.Expr:
    """Return a convolution as a call has it, of others, and with other groups or padding."""
    how = call.attrs
    given = {name: whole(getattr(how, name)) for name in ("strides", "padding", "dilation")}
    given |= {"groups": int(how.groups)} | other
    layouts = {"data_layout": how.data_layout, "kernel_layout": how.kernel_layout}
    return getattr(relax.op.nn, call.op.name.rpartition(".")[2])(x, weight, **given, **layouts)


def whole(numbers: Iterable) -> list[int]:
    """Return whole numbers of TVM as Python has them."""
    return [int(number) for number in numbers]
