"""Schedules of products and convolutions by arithmetic: tiles of the result that registers hold.

MetaSchedule draws how it cuts loops, and few of its cuts do that: of convolutions of small images
the fastest of 16 takes up to twice as long. These are of its own space, with cuts that are chosen.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product

from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import Trace
from tvm.target import codegen

from lib.collect.tvm.attention import largest_divisor
from lib.collect.tvm.compiler import SPATIAL, Sampler, blocks_of, by_hand, hash_of, target_of

ROWS = range(2, 15)  # of a tile, in one or two lines of an image
AT_ROOT, INLINED = -1, -2  # where a block is computed: before all loops, or where it is read
WIDE = range(1, 9)  # vectors of a tile that has one row
STEPS = 64  # of a sum that a tile takes at a time, at most; twice as many of large weights
FEWER = 4  # times fewer steps than these are too few
LARGE = 1 << 20  # bytes of weights that a core's own caches do not keep
FEWEST = 8  # numbers of a vector
SPARE = 4  # registers that hold no part of the result
UNROLLED = (2, 1, 3)  # of compiler.UNROLL_STEPS


def lanes_of(device: str) -> int:
    """Return how many numbers the vectors of an instruction set have."""
    return 16 if codegen.llvm_cpu_has_features("avx512f", target_of(device)) else FEWEST


def tilings(sampler: Sampler, lanes: int, most: int) -> list[Schedule]:
    """Return schedules of a task with one sum, or those that it has of its own; none of another
    task, or if nothing fits.

    Args:
        sampler: of the task.
        lanes: numbers of a vector: 16 with AVX-512, else 8. There are twice as many registers.
            Vectors of 8 are for results that none of 16 divide, too, such as 40 channels.
        most: schedules, at least one of each unrolling.

    Returns:
        The schedules: those first that load least for a multiplication, of each unrolling.
    """
    if by_hand(sampler.task):
        return sampler.designs
    found: dict[str, Schedule] = {}
    changes = sampler.context.space_generator.postprocs
    group = group_of(sampler.task)
    cut = _choices(sampler.designs, lanes, group) or _choices(sampler.designs, FEWEST, group)
    for unrolled, (cuts, design) in product(UNROLLED, cut[: most // len(UNROLLED)]):
        schedule = Schedule(sampler.task)
        with suppress(RuntimeError):  # of steps that cannot be placed with these cuts
            _decided(design.trace, cuts, unrolled).apply_to_schedule(schedule, False)
            schedule.enter_postproc()  # which a search breeds without
            if all(change.apply(schedule) for change in changes):
                found.setdefault(hash_of(schedule.mod), schedule)
    return list(found.values())


def group_of(task: IRModule) -> int:
    """Return how many neighbours of a result read the same inputs: those of a group of a
    convolution; 0 for all."""
    for step in blocks_of(task):
        own = [axis.var.name for axis in step.iter_vars if int(axis.iter_type) == SPATIAL]
        if own and len(own) < len(step.iter_vars):  # a sum of everything has no neighbours
            sizes = re.findall(rf"\b{own[-1]} // (?:T\.int64\()?(\d+)", str(step.reads))
            return min(map(int, sizes), default=0)
    return 0


def _choices(
    designs: Sequence[Schedule], lanes: int, group: int
) -> list[tuple[list[list[int]], Schedule]]:
    """Return cuts of all loops, with the design that they are of."""
    found = []
    for design in designs:
        tiles = [one for one in design.trace.insts if one.kind.name == "SamplePerfectTile"]
        lengths = [math.prod(design.trace.decisions[one]) for one in tiles]
        parts = [int(one.attrs[0]) for one in tiles]
        own, summed = ([n for n, k in zip(lengths, parts, strict=True) if k == of] for of in (4, 2))
        if len(own) > 1 and summed and len(own) + len(summed) == len(tiles):
            found += [(loads, cuts, design) for loads, cuts in _cuts(own, summed, lanes, group)]
    return [(cuts, design) for _, cuts, design in sorted(found, key=lambda one: one[0])]


def _decided(trace: Trace, cuts: Sequence[Sequence[int]], unrolled: int) -> Trace:
    """Return a design with these cuts of its loops, in their order, and this unrolling.

    An image gets its zeros once, and not again for each tile; where a channel is all that is
    summed, a tile's own loops are unrolled, and know where there are zeros.
    """
    zeros = INLINED if cuts[-1] == [1, 1] else AT_ROOT
    decisions, left = dict(trace.decisions.items()), iter(cuts)
    for step in trace.insts:
        if step.kind.name == "SamplePerfectTile":
            decisions[step] = next(left)
        elif step.kind.name == "SampleCategorical":
            decisions[step] = unrolled
        elif step.kind.name == "SampleComputeLocation":
            decisions[step] = zeros
    return Trace(list(trace.insts), decisions)


def _cuts(
    own: Sequence[int], summed: Sequence[int], lanes: int, group: int
) -> Iterator[tuple[float, list[list[int]]]]:
    """Yield cuts, after the loads for a multiplication: of a block's loops, then of its sum's.

    Vectors go along the last loop, rows along the last of the others that has some, and along two
    lines of an image: 14 pixels have no other four rows. A window is summed inside or outside a
    part of the channels. Large weights are read once: all rows of an image take their turns at a
    part of these. Where each channel is summed on its own, a tile has one vector of channels, and
    its window goes over what is in registers. A vector is of one group of channels.
    """
    *outer, columns = own
    group = group or columns
    *window, channels = summed
    rowed = [k for k, length in enumerate(outer) if any(length % rows == 0 for rows in ROWS)]
    if vector := math.prod(outer) == 1:  # is multiplied: its tile is one row
        rowed = [len(outer) - 1]
    if not rowed or math.prod(summed) < FEWEST or (window and len(own) != len(summed) + 1):
        return
    apart = channels == 1
    before, length, after = outer[: rowed[-1]], outer[rowed[-1]], outer[rowed[-1] + 1 :]
    paired = window and before and before[-1] % 2 == 0
    tiles = [
        (lines, rows, wide)
        for lines, rows, wide in product(
            (1, 2) if paired else (1,), range(2, 15), (1,) if apart else (1, 2, 4)
        )
        if length % rows == 0 and group % (wide * lanes) == 0 and lines * rows in ROWS
        if lanes // 4 <= lines * rows * wide <= 2 * lanes - SPARE
    ]
    if vector:
        tiles = [(1, 1, wide) for wide in WIDE if columns % (wide * lanes) == 0]
    large = 4 * math.prod(summed) * columns > LARGE
    for (lines, rows, wide), inside in product(tiles, {True, apart or math.prod(window) == 1}):
        steps = (STEPS << large) // (math.prod(window) if inside else 1)
        part = largest_divisor(channels, max(steps, 1))
        if FEWER * part < min(steps, channels):  # of 415 channels, 83 at a time and not 5
            part = next(n for n in range(steps, channels + 1) if channels % n == 0)
        own_lines = [1] * (len(before) - 1) + [lines]
        cuts = [
            [1, 1, n // k, k] if large else [n // k, 1, 1, k]
            for n, k in zip(before, own_lines, strict=False)  # there may be none before
        ]
        cuts += [[1, length // rows, 1, rows]]
        cuts += [*([1, n, 1, 1] for n in after), [columns // (wide * lanes), 1, 1, wide * lanes]]
        cuts += [*([1, n] if inside else [n, 1] for n in window), [channels // part, part]]
        inputs = 1 / wide
        if apart:
            reach = zip((rows, lines), reversed(window), strict=False)
            inputs = math.prod((n + k - 1) / (n * k) for n, k in reach)
        yield inputs + 1 / (lines * rows), cuts
