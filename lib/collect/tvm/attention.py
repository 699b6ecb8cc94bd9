"""Attention as one tensor program, for which scores never leave the caches.

Scores of 1,500 queries and keys are 54 MB in six heads, and a softmax by itself goes through memory
three times. Here some rows of scores are computed, become weights, and are summed over before the
next ones are (Dao et al. 2022, without its softmax in parts: rows are whole). Of one query, as in
a step of a decoder, keys are read as they lie: turning them takes ten times as long as the rest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import product

from tvm import te, tirx, topi
from tvm.ir import IRModule
from tvm.s_tir import Schedule
from tvm.s_tir.schedule import SBlockRV

from lib.collect.tvm.rewriting import of_one_query
from lib.files.processor import LANES

ROWS, COLUMNS = 12, 32  # numbers of queries and of keys are filled up to multiples of these
WIDE = 2  # vectors of a tile
SCORES = "attention_scores"  # by which such a program is known
PARTS, HALVES = "parts_of_scores", (LANES // 2, LANES // 4)  # sums, of which a score is the sum
ADDED = 8  # vectors of results for one query that are summed at a time, at most
BLOCK = 1 << 20  # bytes of scores and weights that are computed at a time, at most
TINY = 1e-30  # a sum of weights is 0, or more than that
STEPS = 192  # of keys that a tile of the result takes at a time, at most


def attention(
    queries: te.Tensor,
    keys: te.Tensor,
    values: te.Tensor,
    mask: te.Tensor | None,
    scale: float,
    causal: bool,
    side_by_side: int,
) -> te.Tensor:
    """Return attention (Vaswani et al. 2017, equation 1); 0 for a query all of whose keys are
    masked.

    Args:
        queries: (heads, queries, width), float32.
        keys: (heads or a part of these, which some neighbours share, keys, width).
        values: (as keys, keys, outputs). Schedules are of whole vectors of width and outputs.
        mask: (examples, heads, queries, keys), each or 1, float32: is added to scores.
        scale: of scores.
        causal: whether a query sees only as many keys as there are queries up to it.
        side_by_side: heads of an example.

    Returns:
        (heads, queries, outputs).
    """
    shapes = [[*map(int, part.shape)] for part in (queries, values)]
    (heads, count, _), (groups, own, outputs) = shapes
    shared = heads // groups
    if one := of_one_query(*shapes):
        scores, filled = _of_one(queries, keys, scale), values
    else:
        scores, filled = _of_many(queries, keys, values, scale)
    rows, columns = map(int, scores.shape[1:])
    r, s = (te.reduce_axis((0, columns), name) for name in "rs")
    t = te.reduce_axis((0, int(filled.shape[1])), "t")

    def seen(h: tirx.Var, i: tirx.Var, j: tirx.Var) -> tirx.PrimExpr:
        """Return a score, which is the least number for keys that are not there."""
        score, (head, query) = scores[h, i, j], (h * shared + i, 0) if one else (h, i)
        if mask is not None:
            inner = tirx.min(query, count - 1), tirx.min(j, own - 1)
            places = head // side_by_side, head % side_by_side, *inner
            pairs = zip(places, mask.shape, strict=True)
            score += mask[tuple(0 if int(length) == 1 else place for place, length in pairs)]
        there = tirx.all(j < own, j <= query) if causal else j < own
        # (Of both choices, for a vector is not divided between the two.)
        return tirx.Select(there, score, tirx.min_value("float32"))

    masked = te.compute(scores.shape, seen, name="masked")
    most = te.compute(scores.shape[:2], lambda h, i: te.max(masked[h, i, r], axis=r), name="most")
    less = te.compute(scores.shape, lambda h, i, j: masked[h, i, j] - most[h, i], name="less")
    weights = topi.math.fast_exp(less)
    total = te.compute(most.shape, lambda h, i: te.sum(weights[h, i, s], axis=s), name="total")
    summed = te.compute(
        (*most.shape, outputs),
        lambda h, i, n: te.sum(weights[h, i, t] * filled[h, t, n], axis=t),
        name="summed",
    )
    mean = te.compute(
        summed.shape, lambda h, i, n: summed[h, i, n] / tirx.max(total[h, i], TINY), name="mean"
    )
    if rows == count:
        return mean
    return te.compute(
        (heads, count, outputs),
        lambda h, i, n: mean[h // shared, h % shared, n] if one else mean[h, i, n],
        name="asked_for",
    )


def _of_one(queries: te.Tensor, keys: te.Tensor, scale: float) -> te.Tensor:
    """Return (groups, rows, columns) of scores; heads that share keys are its rows.

    A score is first as many sums as a vector has numbers, then half as many.
    """
    (heads, _, width), (groups, own, _) = map(int, queries.shape), map(int, keys.shape)
    rows, factor = heads // groups, tirx.const(scale, "float32")
    columns = -(-own // COLUMNS) * COLUMNS
    scaled = te.compute(
        (groups, rows, width),
        lambda h, i, d: queries[h * rows + i, 0, d] * factor,
        name="scaled_queries",
    )
    k = te.reduce_axis((0, width // LANES), "k")
    sums = te.compute(
        (groups, columns, rows, LANES),
        lambda h, j, i, n: te.sum(
            scaled[h, i, k * LANES + n] * keys[h, tirx.min(j, own - 1), k * LANES + n], axis=k
        ),
        name=PARTS,
    )

    def halved(sums: te.Tensor, n: int) -> te.Tensor:
        """Return n sums of two."""
        return te.compute(
            (*sums.shape[:3], n),
            lambda h, j, i, m: sums[h, j, i, m] + sums[h, j, i, m + n],
            name=f"{PARTS}{n}",
        )

    sums = reduce(halved, HALVES, sums)
    return te.compute(
        (groups, rows, columns),
        lambda h, i, j: sum((sums[h, j, i, n] for n in range(1, HALVES[-1])), sums[h, j, i, 0]),
        name=SCORES,
    )


def _of_many(
    queries: te.Tensor, keys: te.Tensor, values: te.Tensor, scale: float
) -> tuple[te.Tensor, te.Tensor]:
    """Return (heads, rows, columns) of scores, and values; filled up by zeros, for each head."""
    heads, count, width = map(int, queries.shape)
    shared, own, outputs = heads // int(keys.shape[0]), *map(int, values.shape[1:])
    rows, columns = (-(-n // of) * of for n, of in ((count, ROWS), (own, COLUMNS)))
    factor, zero = tirx.const(scale, "float32"), tirx.const(0.0, "float32")

    def inside(place: tirx.Var, few: int, many: int, value: tirx.PrimExpr) -> tirx.PrimExpr:
        """Return a value, and 0 beyond those that there are."""
        return value if few == many else tirx.if_then_else(place < few, value, zero)

    scaled = te.compute(
        (heads, rows, width),
        lambda h, i, d: inside(i, count, rows, queries[h, i, d] * factor),
        name="scaled_queries",
    )
    turned = te.compute(
        (heads, width, columns),
        lambda h, d, j: inside(j, own, columns, keys[h // shared, j, d]),
        name="turned_keys",
    )
    filled = te.compute(
        (heads, columns, outputs),
        lambda h, j, n: inside(j, own, columns, values[h // shared, j, n]),
        name="filled_values",
    )
    d = te.reduce_axis((0, width), "d")
    scores = te.compute(
        (heads, rows, columns),
        lambda h, i, j: te.sum(scaled[h, i, d] * turned[h, d, j], axis=d),
        name=SCORES,
    )
    return scores, filled


def schedules(task: IRModule) -> list[Schedule]:
    """Return schedules of a program of :func:`attention`.

    For vectors of 16 numbers and of 8, they compute few rows of scores at a time, and as many as a
    cache holds. Of one query there is one.
    """
    schedule = Schedule(task)
    if PARTS in steps_of(schedule):
        return [_by_keys(schedule)]
    loops = schedule.get_loops(schedule.get_sblock(SCORES))
    _, rows, columns, _ = (int(schedule.get(loop).extent) for loop in loops)
    blocks = [n for n in range(ROWS, rows + 1, ROWS) if rows % n == 0]
    largest = max((n for n in blocks if 8 * n * columns <= BLOCK), default=ROWS)
    places = product((LANES, LANES // 2), dict.fromkeys((ROWS, largest)))
    return [_by_rows(task, lanes, rows) for lanes, rows in places]


def _by_rows(task: IRModule, lanes: int, rows: int) -> Schedule:
    """Return the schedule that computes so many rows of scores at a time.

    There are twice as many registers as a vector has numbers.
    """
    schedule = Schedule(task)
    steps = steps_of(schedule)
    scores, most, weights = (steps[name] for name in (SCORES, "most", "T_fast_exp"))
    summed, total, mean = (steps[name] for name in ("summed", "total", "mean"))
    parts = _in_parts(schedule, lanes)

    # What is computed for a block of rows, the last step first, and for a head.
    head, row, _ = schedule.get_loops(mean)
    block, _ = schedule.split(row, [None, rows])
    for step in (summed, total, parts[1], weights):
        schedule.compute_at(step, block)
    row = schedule.get_loops(weights)[2]
    for step in (steps["less"], most, parts[0]):
        schedule.compute_at(step, row)
    for step in (scores, steps["scaled_queries"]):
        schedule.compute_at(step, block)
    for name in ("turned_keys", "filled_values"):
        schedule.compute_at(steps[name], head)
    schedule.parallel(head)

    # Products by tiles that registers hold.
    tall = ROWS if lanes == LANES else ROWS // 2
    for step in (scores, summed):
        i, j, r = schedule.get_loops(step)[2:]
        wide = lanes * math.gcd(WIDE, int(schedule.get(j).extent) // lanes)
        part = largest_divisor(int(schedule.get(r).extent), STEPS)
        (i, i_in), (j, j_in), (r, r_in) = (
            schedule.split(loop, [None, size]) for loop, size in ((i, tall), (j, wide), (r, part))
        )
        schedule.reorder(j, r, i, r_in, i_in, j_in)
        schedule.unroll(i_in)
        schedule.vectorize(j_in)
        schedule.decompose_reduction(step, r)
    number, row = schedule.get_loops(total)[2:]
    schedule.reorder(row, number)
    _along_rows(schedule, parts, (3, 2), lanes)
    return schedule


def _by_keys(schedule: Schedule) -> Schedule:
    """Return the schedule for one query: of a head, each step for one key after the other."""
    steps = steps_of(schedule)
    halves = [steps[f"{PARTS}{n}"] for n in HALVES]
    scores, sums, summed = (steps[name] for name in (SCORES, PARTS, "summed"))
    parts = _in_parts(schedule, LANES)
    head = schedule.get_loops(steps["mean"])[0]
    weights = (steps["total"], parts[1], steps["T_fast_exp"], steps["less"])
    for step in (summed, *weights, steps["most"], parts[0], scores):
        schedule.compute_at(step, head, preserve_unit_loops=True)
    *_, row, key = schedule.get_loops(scores)
    schedule.reorder(key, row)
    for step in (*reversed(halves), sums):
        schedule.compute_at(step, key, preserve_unit_loops=True)
    schedule.compute_at(steps["scaled_queries"], head)
    schedule.parallel(head)

    for step in halves:
        *_, row, vector = schedule.get_loops(step)
        schedule.vectorize(vector)
        schedule.unroll(row)
    *_, row, vector, part = schedule.get_loops(sums)
    schedule.reorder(part, row, vector)
    schedule.vectorize(vector)
    schedule.unroll(part)
    schedule.unroll(row)
    schedule.decompose_reduction(sums, part)
    *_, row, number, key = schedule.get_loops(summed)
    rows, numbers = (int(schedule.get(loop).extent) for loop in (row, number))
    wide = largest_divisor(numbers // LANES, ADDED // rows)
    number, part, vector = schedule.split(number, [None, wide, LANES])
    schedule.reorder(number, key, row, part, vector)
    schedule.vectorize(vector)
    schedule.unroll(row)
    schedule.unroll(part)
    schedule.decompose_reduction(summed, key)
    _along_rows(schedule, parts, (1, 1), LANES)
    return schedule


def _in_parts(schedule: Schedule, lanes: int) -> list[SBlockRV]:
    """Compute the largest score and the sum of weights as many numbers, as a vector has, first, and
    return the steps that do."""
    steps, parts = steps_of(schedule), []
    schedule.compute_inline(steps["masked"])
    for name in ("most", "total"):
        _, vector = schedule.split(schedule.get_loops(steps[name])[-1], [None, lanes])
        parts.append(schedule.rfactor(vector, 2))
    return parts


def _along_rows(
    schedule: Schedule, parts: Sequence[SBlockRV], outer: Sequence[int], lanes: int
) -> None:
    """Compute a softmax by vectors along rows; ``outer`` loops of its ``parts`` are around it."""
    steps = steps_of(schedule)
    for part, count in zip(parts, outer, strict=True):
        vector, *own, along = schedule.get_loops(part)[count:]
        schedule.reorder(*own, along, vector)
        schedule.vectorize(vector)
        schedule.decompose_reduction(part, along)
    for step in (steps["less"], steps["T_fast_exp"]):
        _, vector = schedule.split(schedule.get_loops(step)[-1], [None, lanes])
        schedule.vectorize(vector)


def largest_divisor(length: int, most: int) -> int:
    """Return the largest number up to ``most`` that divides a length."""
    return max(n for n in range(1, most + 1) if length % n == 0)


def steps_of(schedule: Schedule) -> dict[str, SBlockRV]:
    """Return the steps of a program by their names, in their order."""
    root = schedule.get_child_blocks(schedule.get_sblock("root"))
    return {str(schedule.get(block).name_hint): block for block in root}
