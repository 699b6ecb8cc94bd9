"""Lossless compression of layout configurations (TGraph paper, section 2.2.3), and beyond it.

A configurable node has three 6-digit layouts of values -1..5. Each is one base-7 integer, 0 to
7^6 - 1. On top of that, the distinct triples of a graph form its *dictionary*, and a cell of the
(configuration, node) table is an index into it, in the smallest unsigned type that holds it: one
byte where the paper's form takes twelve and the raw form 72.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from lib.tpugraphs.checks import layout_codes

DIGITS, TENSORS, BASE = 6, 3, 7
LARGEST = BASE**DIGITS  # one more than the largest code of a layout
_POWERS = BASE ** np.arange(DIGITS - 1, -1, -1, dtype=np.int64)
_JOIN = LARGEST ** np.arange(TENSORS - 1, -1, -1, dtype=np.int64)
# The three codes of a node as one number, a product of matrices. It is less than 2^53, so that
# floats of 64 bits hold it, and every sum on the way to it, exactly.
_ALL_POWERS = float(BASE) ** np.arange(TENSORS * DIGITS - 1, -1, -1)
ROWS = 1 << 12  # configurations looked up at a time
CELL_TYPES = (np.uint8, np.uint16, np.uint32)


def decode_layouts(codes: np.ndarray) -> np.ndarray:
    """Return the digits, (..., 18) int8 in -1..5, of (..., 3) codes of layouts."""
    digits = np.asarray(codes, np.int64)[..., None] // _POWERS % BASE - 1
    return digits.astype(np.int8).reshape(*digits.shape[:-2], TENSORS * DIGITS)


def smallest_type(count: int) -> type:
    """The smallest unsigned type that holds indices 0..count-1."""
    return next(t for t in CELL_TYPES if count - 1 <= np.iinfo(t).max)


def build_dictionary(
    path: Path | str, chunks: Iterable[np.ndarray], count: int, nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the distinct triples of a graph and each cell's index into them.

    Only one chunk is held as digits at a time.

    Args:
        path: where the chunks are from, to name in an error.
        chunks: (r, k, 18) digits in -1..5, of any type of number; their r add up to ``count``.
        count: configurations, c.
        nodes: configurable nodes, k.

    Returns:
        ``(dictionary, cells)``: (d, 3) int32 in ascending order and (c, k) of the smallest
        unsigned type, such that ``decode_layouts(dictionary[cells])`` equals the chunks.

    Raises:
        DataError: if a digit is not an integer in -1..5.
        AssertionError: if a cell does not decode to its source (a defect).
    """
    import pandas as pd  # late: it takes half a second, and stage 1 alone has cells to encode

    known: dict[int, int] = {}  # the number of each triple, in order of first appearance
    numbered: list[np.ndarray] = []
    for chunk in chunks:
        digits = layout_codes(path, chunk)
        joined = ((digits + 1.0) @ _ALL_POWERS).astype(np.int64)  # (r, k)
        places, distinct = pd.factorize(joined.reshape(-1))
        if not np.array_equal(decode_layouts(_split(distinct))[places], digits.reshape(-1, 18)):
            raise AssertionError("cells do not decode to the source's digits")
        numbers = np.array([known.setdefault(key, len(known)) for key in distinct.tolist()], int)
        numbered.append(numbers.astype(smallest_type(len(known)))[places].reshape(joined.shape))
    triples = np.fromiter(known, np.int64, len(known))
    order = np.argsort(triples)
    rank: np.ndarray = np.argsort(order).astype(smallest_type(len(known)))
    cells, done = np.empty((count, nodes), rank.dtype), 0
    for numbers in numbered:
        cells[done : done + len(numbers)] = rank[numbers]
        done += len(numbers)
    return _split(triples[order]), cells


def _split(joined: np.ndarray) -> np.ndarray:
    """Return the three codes, (d, 3) int32, of (d,) joined ones."""
    return (joined[:, None] // _JOIN % LARGEST).astype(np.int32)


def deduplicate(cells: np.ndarray, runtimes: np.ndarray) -> tuple[np.ndarray, ...]:
    """Keep one configuration of each set of equal ones, with its smallest runtime.

    Exact and linear: rows are compared as the bytes of their cells, through a hash table that
    also compares for equality (TGraph paper, section 2.2.2).

    Args:
        cells: (c, k) indices into one dictionary.
        runtimes: (c,) nanoseconds.

    Returns:
        ``(first, runtime, original)``: rows of ``cells`` to keep in order of first appearance,
        (d,) int64; the smallest runtime of each, (d,) int64; and for each of the c original
        configurations its position among the kept, (c,) int32.
    """
    rows = np.ascontiguousarray(cells) if cells.shape[1] else np.zeros((len(cells), 1), np.uint8)
    keys = rows.view((np.void, rows.shape[1] * rows.itemsize))[:, 0]  # (c,)
    seen: dict[bytes, int] = {}
    original = np.empty(len(rows), np.int32)
    for start in range(0, len(rows), ROWS):
        numbers = [seen.setdefault(key, len(seen)) for key in keys[start : start + ROWS].tolist()]
        original[start : start + ROWS] = numbers
    first = np.full(len(seen), len(rows), np.int64)
    np.minimum.at(first, original, np.arange(len(rows)))
    smallest = np.full(len(seen), np.iinfo(np.int64).max, np.int64)
    np.minimum.at(smallest, original, np.asarray(runtimes, np.int64))
    return first, smallest, original
