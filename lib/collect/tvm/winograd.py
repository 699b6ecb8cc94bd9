"""Convolutions of 3 by 3 with a fourth of the multiplications.

Of a tile of 6 by 6 numbers of the image, 36 products of a channel make 4 by 4 numbers of the
result, which take 144 else (Winograd's F(4 x 4, 3 x 3): Lavin and Gray 2016, section 4.3; cuDNN and
others compute so). A tile and a kernel are transformed, multiplied point by point, summed over
channels, and transformed back. Rounding is some times that of a plain sum: 1e-5 of the largest
number. Some lines of tiles go through all steps while the caches hold them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product

import numpy as np
from tvm import relax, te, tirx
from tvm.ir import IRModule
from tvm.s_tir import Schedule

from lib.collect.tvm.attention import largest_divisor, steps_of
from lib.collect.tvm.transposed import whole
from lib.files.processor import LANES

SIZE, KERNEL = 4, 3  # of a tile of the result, and of a kernel
POINTS = SIZE + KERNEL - 1  # of a tile of the image
# The transforms of the image, of the kernel and back (Lavin and Gray 2016, equations 15 to 17).
IMAGE = (
    *((4, 0, -5, 0, 1, 0), (0, -4, -4, 1, 1, 0), (0, 4, -4, -1, 1, 0)),
    *((0, -2, -1, 2, 1, 0), (0, 2, -1, -2, 1, 0), (0, 4, 0, -5, 0, 1)),
)
WEIGHTS = np.array(
    [[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 24]], "f4"
) / np.array([[24]], "f4")
BACK = ((1, 1, 1, 1, 1, 0), (0, 1, -1, 2, -2, 0), (0, 1, 1, 4, 4, 0), (0, 1, -1, 8, -8, 1))
PRODUCTS = "tile_products"  # by which such a program is known
ROWS = range(4, 14)  # of tiles whose products are in registers
FEWEST_TILES = 16  # that share a kernel's 36 numbers, which are read for them
PACKED = 2 * LANES  # channels of a kernel that lie side by side, at most
HELD = 1 << 20  # bytes of transformed lines of tiles, at most, if there are several
STEPS = 64  # channels that a product takes at a time, at most
REGISTERS = ((LANES, 28), (LANES // 2, 13))  # numbers of a vector, vectors that hold results


def by_tiles(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Return a convolution, channels last, by tiles; as it is if that takes no less time."""
    image, kernel = call.args
    how, (batch, height, width, outputs) = call.attrs, whole(call.ty.shape)
    inputs = whole(image.ty.shape)[-1]
    tiles = batch * math.prod(_tiles(height, width))
    plain = {*whole(how.strides), *whole(how.dilation), int(how.groups)} == {1}
    if (
        not plain
        or whole(kernel.ty.shape)[:2] != [KERNEL, KERNEL]
        or (str(how.data_layout), str(how.kernel_layout)) != ("NHWC", "HWIO")
        or inputs % (LANES // 2)
        or outputs % (LANES // 2)
        or tiles < FEWEST_TILES
        or 2 * tiles * POINTS**2 > batch * height * width * KERNEL**2
    ):
        return call
    wide, transform = math.gcd(outputs, PACKED), relax.const(WEIGHTS)
    kernel = relax.op.reshape(kernel, [KERNEL, KERNEL * inputs * outputs])
    kernel = relax.op.matmul(transform, kernel)
    kernel = relax.op.reshape(kernel, [POINTS, KERNEL, inputs * outputs])
    kernel = relax.op.matmul(transform, kernel)
    kernel = relax.op.reshape(kernel, [POINTS, POINTS, inputs, outputs // wide, wide])
    kernel = builder.emit(relax.op.permute_dims(kernel, [3, 0, 1, 2, 4]))
    fused = {"op_pattern": 4}  # what follows element by element is computed with it
    padding = whole(how.padding)
    return builder.call_te(convolution, image, kernel, padding, primfunc_attrs=fused)


def convolution(image: te.Tensor, kernel: te.Tensor, padding: Sequence[int]) -> te.Tensor:
    """Return a convolution of stride 1.

    Args:
        image: (batch, height, width, inputs), float32.
        kernel: (outputs / p, 6, 6, inputs, p), transformed, p channels side by side.
        padding: lines of zeros at the top, left, bottom and right.

    Returns:
        (batch, rows, columns, outputs).
    """
    batch, height, width, inputs = whole(image.shape)
    groups, *_, wide = whole(kernel.shape)
    top, left, bottom, right = padding
    rows, columns = height + top + bottom - KERNEL + 1, width + left + right - KERNEL + 1
    down, along = _tiles(rows, columns)

    def inside(b: tirx.Var, y: tirx.Var, x: tirx.Var, c: tirx.Var) -> tirx.PrimExpr:
        there = tirx.all(y >= top, y < height + top, x >= left, x < width + left)
        zero = tirx.const(0.0, "float32")
        return tirx.if_then_else(there, image[b, y - top, x - left, c], zero)

    size = [n * SIZE + KERNEL - 1 for n in (down, along)]
    padded = te.compute((batch, *size, inputs), inside, name="padded")
    lines = te.compute(
        (batch, down, POINTS, size[1], inputs),
        lambda b, i, p, x, c: _of(IMAGE, p, lambda k: padded[b, i * SIZE + k, x, c]),
        name="tile_lines",
    )
    tiles = te.compute(
        (batch, POINTS, POINTS, down, along, inputs),
        lambda b, p, q, i, j, c: _of(IMAGE, q, lambda k: lines[b, i, p, j * SIZE + k, c]),
        name="tiles",
    )
    r = te.reduce_axis((0, inputs), "r")
    products = te.compute(
        (batch, POINTS, POINTS, down, along, groups * wide),
        lambda b, p, q, i, j, n: te.sum(
            tiles[b, p, q, i, j, r] * kernel[n // wide, p, q, r, n % wide], axis=r
        ),
        name=PRODUCTS,
    )
    halves = te.compute(
        (batch, down, SIZE, POINTS, along, groups * wide),
        lambda b, i, y, q, j, n: _of(BACK, y, lambda k: products[b, k, q, i, j, n]),
        name="tile_halves",
    )
    results = te.compute(
        (batch, down, SIZE, SIZE, along, groups * wide),
        lambda b, i, y, x, j, n: _of(BACK, x, lambda k: halves[b, i, y, k, j, n]),
        name="tile_results",
    )
    return te.compute(
        (batch, rows, columns, groups * wide),
        lambda b, y, x, n: results[b, y // SIZE, y % SIZE, x % SIZE, x // SIZE, n],
        name="image",
    )


def _of(
    rows: Sequence[Sequence[int]], row: tirx.Var, value: Callable[[int], tirx.PrimExpr]
) -> tirx.PrimExpr:
    """Return a row's sum of values, each times its number in the row."""
    sums = []
    for numbers in rows:
        terms = [
            value(k) if number == 1 else value(k) * tirx.const(float(number), "float32")
            for k, number in enumerate(numbers)
            if number
        ]
        sums.append(sum(terms[1:], terms[0]))
    chosen = sums[-1]
    for k in reversed(range(len(rows) - 1)):
        chosen = tirx.Select(row == k, sums[k], chosen)
    return chosen


def schedules(task: IRModule) -> list[Schedule]:
    """Return schedules of a program of :func:`convolution`, those first that load least.

    They transform a line of tiles at a time, or as many as a cache holds, or half of these, and
    have the results of products in registers of either kind of vectors.
    """
    schedule = Schedule(task)
    loops = schedule.get_loops(schedule.get_sblock(PRODUCTS))
    _, _, _, down, along, outputs, inputs = (int(schedule.get(loop).extent) for loop in loops)
    held = 4 * POINTS**2 * along * inputs  # bytes of a line of tiles
    fitting = [n for n in range(1, down + 1) if down % n == 0 and (n == 1 or n * held <= HELD)]
    some = {1, fitting[len(fitting) // 2], fitting[-1]}
    found = []
    for lines, (lanes, registers), vectors in product(some, REGISTERS, (1, 2)):
        rows = largest_divisor(lines * along, registers // vectors)
        if inputs % lanes == 0 and outputs % (vectors * lanes) == 0:
            found.append((1 / rows + 1 / vectors, lines, rows, vectors, lanes))
    return [_by_lines(task, *sizes) for _, *sizes in sorted(found)]


def _by_lines(task: IRModule, lines: int, rows: int, vectors: int, lanes: int) -> Schedule:
    """Return the schedule that has so many lines of tiles at a time, and products of so many tiles
    and channels in registers."""
    schedule = Schedule(task)
    steps = steps_of(schedule)
    for name in [*steps][[*steps].index("image") : -1]:
        schedule.compute_inline(steps.pop(name))
    *_, last = steps.values()
    tiles, products = steps["tiles"], steps[PRODUCTS]

    # Of some lines of tiles all channels are transformed, and then a part of the result's.
    batch, down, along, outputs = schedule.get_loops(last)
    height = int(schedule.get(down).extent)
    group, down = schedule.split(down, [None, min(lines * SIZE, height)])
    part, outputs = schedule.split(outputs, [None, vectors * lanes])
    schedule.reorder(batch, group, part, down, along, outputs)
    schedule.parallel(schedule.fuse(batch, group))
    for name in ("tile_results", "tile_halves", PRODUCTS):
        schedule.compute_at(steps[name], part, preserve_unit_loops=True)
    group = schedule.get_loops(last)[0]
    schedule.compute_at(tiles, group, preserve_unit_loops=True)
    _, _, points, _, line, *_ = schedule.get_loops(tiles)
    schedule.reorder(line, points)
    schedule.compute_at(steps["tile_lines"], line, preserve_unit_loops=True)
    schedule.compute_at(steps["padded"], group, preserve_unit_loops=True)

    # A transform takes from registers what several of its results are made of.
    places = {"tile_lines": (3, 2), "tiles": (3, 0), "tile_halves": (2, 2), "tile_results": (2, 3)}
    for name, (outer, place) in places.items():
        *own, channels = schedule.get_loops(steps[name])[outer:]
        repeated = own.pop(place)
        channels, vector = schedule.split(channels, [None, lanes])
        schedule.reorder(*own, channels, repeated, vector)
        schedule.unroll(repeated)
        schedule.vectorize(vector)
    for block in (steps["padded"], last):
        _, vector = schedule.split(schedule.get_loops(block)[-1], [None, lanes])
        schedule.vectorize(vector)
    _, p, q, i, j, n, r = schedule.get_loops(products)[2:]
    steps_inside = largest_divisor(int(schedule.get(r).extent), STEPS)
    tile, row = schedule.split(schedule.fuse(i, j), [None, rows])
    n, vector = schedule.split(n, [None, lanes])
    r, r_in = schedule.split(r, [None, steps_inside])
    schedule.reorder(p, q, r, tile, r_in, row, n, vector)
    schedule.unroll(row)
    schedule.unroll(n)
    schedule.vectorize(vector)
    schedule.decompose_reduction(products, r)
    return schedule


def _tiles(rows: int, columns: int) -> tuple[int, int]:
    """Return how many tiles are below each other, and side by side: so many that some of these fit
    registers, also where a part of the image has 17."""
    down, along = -(-rows // SIZE), -(-columns // SIZE)
    while along > ROWS[0] and not any(along % n == 0 for n in ROWS):
        along += 1
    return down, along
