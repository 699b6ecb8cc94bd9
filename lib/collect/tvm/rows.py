"""Rows that no tile divides, filled up.

Registers hold a tile of some rows of a product, and 197 tokens or 799 steps are prime.
"""

from __future__ import annotations

import math

from tvm import relax

from lib.collect.tvm.transposed import convolved_as, filled_up, whole
from lib.collect.tvm.winograd import by_tiles

TILES = range(2, 13)  # numbers of rows that tiles have
ROWS = (4, 5, 6)  # of a tile, one of which is to divide all rows: of 3, weights are read too often
SHARE = 8  # rows, or channels, for each that is added, at least
WORK = 64  # products of a number for which its copy is worth the time


def filled(rows: int) -> int:
    """Return the least number of rows, no less than these, that tiles divide."""
    return next(n for n in range(rows, rows + 4) if any(n % tile == 0 for tile in ROWS))


def in_tiles(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Return a convolution of images, channels last, by tiles of either kind."""
    result = by_tiles(builder, call)
    return whole_tiles(builder, call) if result.same_as(call) else result


def whole_tiles(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Return a product or a convolution, channels last, of more rows, of which those are taken that
    there were; as it is if tiles divide them, or if that takes longer. Of an image whose lines no
    tile divides, such as 13 pixels, all pixels are the rows of a product if each is by itself."""
    (x, weight), how, shape = call.args, call.attrs, whole(call.ty.shape)
    if len(x.ty.shape) != len(shape) or len(weight.ty.shape) < 2 or len(shape) < 2:
        return call
    *window, _, columns = whole(weight.ty.shape)
    product, axis = call.op.name == "relax.matmul", len(shape) - 2
    while product and axis and shape[axis] == 1 and not window:
        axis -= 1  # a sequence may come before a batch of one
    outer, rows = shape[:axis], shape[axis]
    more, work = filled(rows) - rows, columns
    divided = not more or more * SHARE > rows
    if not product:
        work = work * math.prod(window) // math.prod(whole(how.strides))
        pairs = len(window) > 1 and outer[-1] % 2 == rows % 2 == 0  # lines of an image
        divided = divided or pairs or int(how.groups) > 1 or any(filled(n) == n for n in outer)
        parts = {*window, *whole(how.strides), int(how.groups)} | {
            p + 1 for p in whole(how.padding)
        }
        if parts == {1} and not pairs and all(rows % tile for tile in TILES):
            return _as_product(builder, call)
    if divided or work < WORK:
        return call
    if product:
        result = relax.op.matmul(filled_up(x, {axis: more}), weight)
    else:
        padding = whole(how.padding)
        padding[-1] += more * whole(how.strides)[-1]
        result = convolved_as(call, x, weight, padding=padding)
    return relax.op.strided_slice(result, [axis], [0], [rows])


def _as_product(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Return a convolution of pixels by themselves as a product, whose rows are all of them."""
    (x, weight), shape = call.args, whole(call.ty.shape)
    pixels, (inputs, outputs) = math.prod(shape[1:-1]), whole(weight.ty.shape)[-2:]
    flat = builder.normalize(relax.op.reshape(x, [shape[0], pixels, inputs]))
    flat = filled_up(flat, {1: filled(pixels) - pixels})
    result = relax.op.matmul(flat, relax.op.reshape(weight, [inputs, outputs]))
    result = relax.op.strided_slice(result, [1], [0], [pixels])
    return relax.op.reshape(result, shape)
