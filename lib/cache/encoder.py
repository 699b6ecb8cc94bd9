"""Configurations to cells, chunk by chunk, without ever holding them as digits.

The distinct layout triples of a graph are few, so almost every cell of a chunk is known already.
A known one is found by a hash of its 18 digits, and then *decoded and compared with the source*:
the comparison proves at once that the guess was right, that every digit is an integer in range,
and that the cell is lossless. What fails it takes the slow and exact way, which validates it and
adds new triples to the dictionary. Time is linear in the cells; memory is the cells, the
dictionary and one block.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from lib.cache.codec import (
    DIGITS,
    TENSORS,
    decode_layouts,
    encode_layouts,
    join_codes,
    smallest_type,
    split_codes,
)
from lib.tpugraphs.checks import layout_codes

WIDTH = TENSORS * DIGITS
BLOCK = 1 << 14  # cells encoded at a time: 1.2 MB of digits, which stay in the processor's cache

# Two sums of digits times these are exact in float32 (18 * 5 * 186000 < 2^24), whatever order a
# matrix product adds them in; together they are a 48-bit hash that rarely collides.
_WEIGHTS = np.random.default_rng(7).integers(1, 186_000, (WIDTH, 2)).astype(np.float32)
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # multiplicative hashing: the golden ratio, odd
MIN_SLOTS, MAX_SLOTS, SLOTS_PER_TRIPLE = 12, 20, 16  # the first two as powers of two


def build_dictionary(
    path: Path | str, chunks: Iterable[np.ndarray], count: int, nodes: int
) -> tuple[np.ndarray, np.ndarray]:
    """The distinct triples of a graph and each cell's index into them.

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
        ValueError: for another number of configurations or nodes.
        AssertionError: if a cell does not decode to its source (a defect).
    """
    encoder = _Encoder(path, count, nodes)
    for chunk in chunks:
        encoder.add(chunk)
    return encoder.finish()


class _Encoder:
    """Cells in the order in which triples first appear; :meth:`finish` sorts the dictionary.

    Attributes:
        cells: (c, k) numbers of triples, ``done`` rows of them filled.
        numbers: the number of each known triple, by its joined code.
        digits: (>= d, 18) float32, the triples by number, with room to grow.
        slots: (2^b,) a triple's number by its hash; of triples with one slot, the first.
        hashes: (h,) the hashes of the first h triples; ``order`` sorts them into ``sorted``.
    """

    def __init__(self, path: Path | str, count: int, nodes: int):
        self.path = path
        self.cells, self.done = np.empty((count, nodes), np.uint8), 0
        self.numbers: dict[int, int] = {}
        self.digits = np.empty((64, WIDTH), np.float32)
        self.slots = self.hashes = self.order = self.sorted = np.empty(0, np.int64)
        self.missed = 0  # rows that took the slow way since the hashes were last computed

    def add(self, chunk: np.ndarray) -> None:
        """Encode (r, k, 18) digits, the next r configurations."""
        nodes = self.cells.shape[1]
        if self.done + len(chunk) > len(self.cells) or chunk.shape[1:] != (nodes, WIDTH):
            raise ValueError(f"chunk {chunk.shape} at {self.done} of {self.cells.shape} cells")
        rows = max(1, BLOCK // max(1, nodes))
        for start in range(0, len(chunk), rows):
            block = chunk[start : start + rows]
            if block.dtype != np.float32:
                block = layout_codes(self.path, block).astype(np.float32)
            numbers = self._encode(np.ascontiguousarray(block).reshape(-1, WIDTH))
            dtype = smallest_type(len(self.numbers))
            if self.cells.dtype != dtype:
                wider: np.ndarray = np.empty(self.cells.shape, dtype)
                wider[: self.done] = self.cells[: self.done]
                self.cells = wider
            self.cells[self.done : self.done + len(block)] = numbers.reshape(len(block), nodes)
            self.done += len(block)

    def finish(self) -> tuple[np.ndarray, np.ndarray]:
        """The dictionary in ascending order, and the cells by it; see :func:`build_dictionary`."""
        if self.done < len(self.cells):
            raise ValueError(f"{self.done} configurations, expected {len(self.cells)}")
        joined = np.fromiter(self.numbers, np.int64, len(self.numbers))
        order = np.argsort(joined)
        dictionary = split_codes(joined[order])
        if not np.array_equal(decode_layouts(dictionary), self.digits[order]):
            raise AssertionError("the dictionary does not decode to the source's digits")
        rank = np.empty(len(order), self.cells.dtype)
        rank[order] = np.arange(len(order))
        rows = max(1, BLOCK // max(1, self.cells.shape[1]))
        for start in range(0, len(self.cells), rows):
            self.cells[start : start + rows] = rank[self.cells[start : start + rows]]
        return dictionary, self.cells

    def _encode(self, block: np.ndarray) -> np.ndarray:
        """The numbers of (b, 18) float32 digits, (b,) int64, proven equal to their source."""
        if not len(block):
            return np.empty(0, np.int64)
        if not self.numbers:
            self._learn(block[:1])
        numbers = self._guess(block)
        same = self.digits.take(numbers, axis=0) == block
        if not same.all():
            wrong = np.flatnonzero(~same.all(axis=1))
            numbers[wrong] = self._learn(block[wrong])
        return numbers

    def _guess(self, block: np.ndarray) -> np.ndarray:
        """For each row of digits, the number of a triple that most likely is the same."""
        hashes = _hashes(block)
        numbers = self.slots.take(_slots(hashes, len(self.slots)))
        lost = np.flatnonzero(self.hashes.take(numbers) != hashes)
        if len(lost):  # unknown, or another triple has the slot
            place = np.searchsorted(self.sorted, hashes[lost])
            numbers[lost] = self.order.take(place, mode="clip")
        return numbers

    def _learn(self, rows: np.ndarray) -> np.ndarray:
        """The numbers of validated rows; triples not seen before are added to the dictionary."""
        digits = layout_codes(self.path, rows)
        joined, first, inverse = np.unique(
            join_codes(encode_layouts(digits)), return_index=True, return_inverse=True
        )
        before = len(self.numbers)
        numbered = [self.numbers.setdefault(key, len(self.numbers)) for key in joined.tolist()]
        numbers = np.array(numbered, np.int64)
        while len(self.digits) < len(self.numbers):
            self.digits = np.concatenate([self.digits, np.empty_like(self.digits)])
        self.digits[before : len(self.numbers)] = digits[first[numbers >= before]]
        numbers = numbers[inverse]
        if not np.array_equal(self.digits.take(numbers, axis=0), rows):
            raise AssertionError("cells do not decode to the source's digits")
        self.missed += len(rows)
        if len(self.hashes) < len(self.numbers) and self.missed * 4 >= len(self.slots):
            self._rehash()
        return numbers

    def _rehash(self) -> None:
        """Hash every triple known so far; the rows that missed have paid for it."""
        count, self.missed = len(self.numbers), 0
        self.hashes = _hashes(self.digits[:count])
        self.order = np.argsort(self.hashes)
        self.sorted = self.hashes[self.order]
        bits = (SLOTS_PER_TRIPLE * count).bit_length()
        self.slots = np.zeros(1 << min(MAX_SLOTS, max(MIN_SLOTS, bits)), np.int64)
        # Backwards, so that of two triples with one slot the earlier, likely commoner, has it.
        self.slots[_slots(self.hashes, len(self.slots))[::-1]] = np.arange(count)[::-1]


def _hashes(digits: np.ndarray) -> np.ndarray:
    """(b, 18) float32 to (b,) int64, the same for equal digits; any digits, also NaN."""
    with np.errstate(all="ignore"):
        return (digits @ _WEIGHTS).view(np.int64).reshape(-1)


def _slots(hashes: np.ndarray, count: int) -> np.ndarray:
    """Hashes as places of ``count`` slots, a power of two; (b,) int64."""
    shift = np.uint64(64 - (count.bit_length() - 1))
    return ((hashes.view(np.uint64) * _SPREAD) >> shift).view(np.int64)
