"""Access patterns: how a leaf's statement goes through memory, as a row of numbers.

What :mod:`lib.programs.tensorir.nests` and `PerStoreFeature` do not say: which loops reduce, how
far each loop moves each buffer, what a vector loads, what an unrolled body keeps in registers, and
what a cache of each size is read for. All counts are as log2; ``ABSENT`` is of what is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lib.programs.tensorir.nests import ABSENT, INNERMOST, nests
from lib.programs.tensorir.nests import WIDTH as NEST_WIDTH
from lib.programs.tensorir.tree import VECTORIZED, Forest

DIMENSIONS, DOMAINS = 6, 5  # of a buffer; of a block, of either kind: the outer ones are left out
MOST_BUFFERS, READS = 6, 3  # that count; that have columns of their own
LINE = 64  # bytes
CACHES = (32 << 10, 1 << 20, 32 << 20)  # bytes
_INNER = range(INNERMOST)
_ALONG = ("place", "extent", "reduces", "output", "broadcast", "contiguous", "gathered")
COLUMNS: tuple[str, ...] = (
    *(f"reduces{k}" for k in _INNER),
    *(f"{buffer}_stride{k}" for buffer in ("output", "read0", "read1", "read2") for k in _INNER),
    *(f"{loop}_{part}" for loop in ("vector", "serial") for part in _ALONG),
    *(f"unrolled_{part}" for part in ("steps", "accumulators", "loads", "loads_per_step")),
    *("tile", "tile_reduction"),
    *(f"footprint{k + 1}" for k in _INNER),
    *(f"cache{k}_{p}" for k in range(3) for p in ("loops", "footprint", "traffic", "per_step")),
    *("steps", "needed", "repeated", "reads", "output_local", "output_bytes"),
    *("conditions", "conditional_loop"),
    *(f"{kind}{k}" for kind in ("spatial", "reduction") for k in range(DOMAINS)),
)
WIDTH = len(COLUMNS)
AROUND = NEST_WIDTH + WIDTH
MOST = 64.0  # of any column; only counts of conditions can be more
UNKNOWN = -2.0  # of all columns of a leaf that nobody looked at


def unknown(leaves: int) -> np.ndarray:
    """Return (leaves, ``WIDTH``) float16 of leaves that nobody looked at."""
    return np.full((leaves, WIDTH), UNKNOWN, np.float16)


def around(forest: Forest, accesses: np.ndarray) -> np.ndarray:
    """Return (leaves, ``AROUND``) float16: the loops around each leaf, and what it accesses."""
    return np.concatenate([nests(forest), accesses.astype(np.float16)], 1)


@dataclass(frozen=True, eq=False)
class Access:
    """A buffer that a statement reads or writes; d dimensions, l loops, outermost first.

    Attributes:
        span: (d, l) how far a loop moves the index, from its first to its last iteration.
        shape: (d,) of the buffer.
        bytes: of an element.
        inside: how many of the loops are around all that uses the buffer, which is kept for one
            iteration of those only; -1 of an argument.
    """

    span: np.ndarray
    shape: np.ndarray
    bytes: int
    inside: int


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement and the l loops around it, outermost first.

    Attributes:
        extent, kind, reduces: (l,) iterations, as in a tree, and whether results are summed over.
        unroll: the most steps that the compiler may unroll.
        accesses: what is written, then what is read.
        domains: (2 * ``DOMAINS``,) sizes of what is computed, and of what is summed over.
        needed: their product.
        conditions: around it and in it.
        conditional: (l,) whether a condition depends on the loop.
    """

    extent: np.ndarray
    kind: np.ndarray
    reduces: np.ndarray
    unroll: int
    accesses: Sequence[Access]
    domains: np.ndarray
    needed: float
    conditions: int
    conditional: np.ndarray


@dataclass(frozen=True, eq=False)
class _Padded:
    """Statements as arrays: n of them, b buffers, d dimensions, l loops, innermost first."""

    extent: np.ndarray  # (n, l) float64, 1 where there is no loop
    there: np.ndarray  # (n, l)
    kind: np.ndarray  # (n, l)
    reduces: np.ndarray  # (n, l)
    conditional: np.ndarray  # (n, l)
    span: np.ndarray  # (n, b, d, l) float64, of what a buffer keeps at a time
    shape: np.ndarray  # (n, b, d) float64, the same
    bytes: np.ndarray  # (n, b), 0 where there is no buffer
    local: np.ndarray  # (n, b)


def columns(statements: Sequence[Statement]) -> np.ndarray:
    """Return (n, ``WIDTH``) float16 of n statements."""
    if not statements:
        return np.zeros((0, WIDTH), np.float16)
    p = _padded(statements)
    after = np.cumprod(p.shape[..., ::-1], -1)[..., ::-1] / p.shape  # elements of inner dimensions
    moved = (p.span * after[..., None]).sum(2)  # (n, b, l) elements
    stride = moved / np.maximum(p.extent - 1, 1)[:, None]
    used = p.bytes > 0
    code = np.where(stride > 0, 1 + np.log2(np.maximum(stride, 1)), 0.0)
    code = np.where(used[..., None] & p.there[:, None], code, ABSENT)
    inner = slice(0, INNERMOST)
    vector = p.there & (p.kind == VECTORIZED)
    parts = [
        np.where(p.there, p.reduces, ABSENT)[:, inner],
        *(code[:, k, inner] for k in range(1 + READS)),
        _along(p, code, vector),
        _along(p, code, p.there & ~vector),
        _unrolled(p, moved, np.array([statement.unroll for statement in statements]), vector),
        _footprints(p),
        _rest(p, statements),
    ]
    return np.concatenate(parts, 1).clip(-MOST, MOST).astype(np.float16)


def _padded(statements: Sequence[Statement]) -> _Padded:
    n, most = len(statements), max(INNERMOST, *(len(statement.extent) for statement in statements))
    extent, there = np.ones((n, most)), np.zeros((n, most), bool)
    kind, reduces, conditional = (np.zeros((n, most), np.int64) for _ in range(3))
    span = np.zeros((n, MOST_BUFFERS, DIMENSIONS, most))
    shape = np.ones((n, MOST_BUFFERS, DIMENSIONS))
    size, local = np.zeros((n, MOST_BUFFERS)), np.zeros((n, MOST_BUFFERS), bool)
    for k, statement in enumerate(statements):
        loops = len(statement.extent)
        there[k, :loops] = True
        for row, values in (
            (extent, statement.extent),
            (kind, statement.kind),
            (reduces, statement.reduces),
            (conditional, statement.conditional),
        ):
            row[k, :loops] = values[::-1]
        for b, access in enumerate(statement.accesses[:MOST_BUFFERS]):
            wide = len(access.shape)
            moved = access.span[:, max(access.inside, 0) :]  # loops outside move the buffer with it
            span[k, b, -wide:, : moved.shape[1]] = moved[:, ::-1]
            elements = 1 + moved.sum(1) if access.inside >= 0 else access.shape
            shape[k, b, -wide:] = np.minimum(elements, access.shape)
            size[k, b], local[k, b] = access.bytes, access.inside >= 0
    return _Padded(extent, there, kind, reduces, conditional, span, shape, size, local)


def _first(mask: np.ndarray) -> np.ndarray:
    """Return (n,) the place of the first true one of (n, l); ``ABSENT`` if there is none."""
    return np.where(mask.any(1), mask.argmax(1), ABSENT)


def _along(p: _Padded, code: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Return (n, 7) what the innermost of some loops does, by ``_ALONG``."""
    place = _first(mask)
    row, at = np.arange(len(place)), place.astype(np.int64)
    codes = code[row, :, at]  # (n, b)
    reads, present = codes[:, 1:], place >= 0
    numbers = np.stack(
        [
            place,
            np.log2(p.extent[row, at]),
            p.reduces[row, at],
            codes[:, 0],
            (reads == 0).sum(1),
            (reads == 1).sum(1),
            (reads > 1).sum(1),
        ],
        1,
    )
    return np.where(present[:, None], numbers, ABSENT)


def _unrolled(p: _Padded, moved: np.ndarray, limit: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return (n, 6) of the innermost unrolled loops, and of those below a reduction."""
    scalar = np.where(vector, 1.0, p.extent)
    inside = (np.cumprod(scalar, 1) <= np.maximum(limit, 1)[:, None]) & p.there
    steps = np.where(inside, scalar, 1.0)
    times = np.where(moved > 0, steps[:, None], 1.0).prod(-1)  # (n, b)
    loads = np.where(p.bytes > 0, times, 0.0)[:, 1:].sum(1)
    total = steps.prod(1)
    reduction = _first(p.reduces.astype(bool) & p.there)
    reduced, at = reduction >= 0, reduction.astype(np.int64)
    below = np.arange(p.extent.shape[1]) < at[:, None]
    tile = np.log2(np.where(below, p.extent, 1.0).prod(1))
    depth = np.log2(p.extent[np.arange(len(at)), at])
    return np.stack(
        [
            np.log2(total),
            np.log2(times[:, 0]),
            np.log2(1 + loads),
            loads / total,
            np.where(reduced, tile, ABSENT),
            np.where(reduced, depth, ABSENT),
        ],
        1,
    )


def _lines(p: _Padded) -> np.ndarray:
    """Return (n, b, l + 1) lines of memory that the innermost loops touch, of none to all."""
    touched = 1 + np.cumsum(np.insert(p.span, 0, 0, axis=-1), -1)  # (n, b, d, l + 1)
    touched = np.minimum(touched, p.shape[..., None])
    run = touched[:, :, -1]
    whole, rows = run == p.shape[:, :, -1:], np.ones_like(run)
    for d in range(2, DIMENSIONS + 1):
        length = touched[:, :, -d]
        run, rows = np.where(whole, run * length, run), np.where(whole, rows, rows * length)
        whole = whole & (length == p.shape[:, :, -d, None])
    size = p.bytes[..., None]
    return np.where(size > 0, rows * (1 + (run - 1) * size / LINE), 0.0)


def _footprints(p: _Padded) -> np.ndarray:
    """Return (n, 8 + 12) bytes that the innermost loops touch; what each cache is read for."""
    lines = _lines(p)
    total = LINE * lines.sum(1)  # (n, l + 1)
    loops = p.there.sum(1)
    row = np.arange(len(loops))
    outer = np.cumprod(p.extent[:, ::-1], 1)[:, ::-1]  # (n, l) iterations from a loop outwards
    outer = np.append(outer, np.ones((len(loops), 1)), 1)
    parts = [np.log2(total[:, 1 : 1 + INNERMOST])]
    still = p.span.sum(2) == 0  # (n, b, l)
    for size in CACHES:
        fits = np.minimum((total[:, 1:] <= size).sum(1), loops)  # (n,) innermost loops
        nxt = np.minimum(fits, p.extent.shape[1] - 1)
        again = np.where(still[row, :, nxt], 1.0, p.extent[row, nxt][:, None])  # (n, b)
        beyond = np.minimum(fits + 1, p.extent.shape[1])
        traffic = (lines[row, :, fits] * again).sum(1) * outer[row, beyond]
        steps = np.log2(p.extent).sum(1)
        logs = np.log2(np.maximum(traffic, 1))
        parts.append(np.stack([fits, np.log2(total[row, fits]), logs, logs - steps], 1))
    return np.concatenate(parts, 1)


def _rest(p: _Padded, statements: Sequence[Statement]) -> np.ndarray:
    """Return (n, 8 + 2 * ``DOMAINS``) of the statement as a whole."""
    steps = np.log2(p.extent).sum(1)
    needed = np.log2([statement.needed for statement in statements])
    output = np.log2(p.shape[:, 0].prod(1) * p.bytes[:, 0])
    numbers = [
        steps,
        needed,
        steps - needed,
        (p.bytes[:, 1:] > 0).sum(1),
        p.local[:, 0],
        output,
        [statement.conditions for statement in statements],
        _first(p.conditional.astype(bool) & p.there),
    ]
    domains = np.log2([statement.domains for statement in statements])
    return np.concatenate([np.stack(numbers, 1), domains], 1)
