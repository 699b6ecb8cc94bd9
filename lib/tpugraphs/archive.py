"""Npz archives, read without trusting them and written with the same bytes each time.

Nothing is allocated before the npy header, the zip directory and the size of the file on disk
agree on how much there is. Pickles and object arrays are refused from their header alone.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lib.files.artifacts import atomic_file
from lib.files.errors import DataError
from lib.files.foreign import reading
from lib.files.regular import open_regular, size_of

MAX_DIRECTORY_BYTES = 2**20  # of a zip archive's list of members; ours have ten
MAX_MEMBER_BYTES = 2**36  # 64 GiB; the largest official array has a few GB
MAX_WHOLE_BYTES = 2**28  # of the arrays read whole; the largest official graph has 60 MB
MAX_DEFLATE_RATIO = 1032  # what deflate can reach at most; a bigger claim is false
MAX_HEADER_BYTES = 10_000  # as in numpy
MAX_DIMENSIONS = 8  # of an array; the official ones have at most 3
CHUNK_BYTES = 2**20  # how much is decoded or written at a time
PIECE_BYTES = 2**17  # how much is read from the file at a time


@dataclass(frozen=True)
class Header:
    """The header of an array, checked against the size of its member.

    Attributes:
        shape: non-negative lengths.
        dtype: a boolean, integer, float or complex type; never an object type.
        fortran_order: true if the first index varies fastest.
        offset: bytes before the data.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    fortran_order: bool
    offset: int

    @property
    def nbytes(self) -> int:
        """Bytes of the data."""
        return math.prod(self.shape) * self.dtype.itemsize


class Archive:
    """An open npz file; arrays are known by their keys, the names without ``.npy``."""

    def __init__(self, path: Path, file: io.BufferedReader):
        self.path, self.members = path, {}
        with reading(path, "file", "a readable npz archive"):
            self._zip = zipfile.ZipFile(_Pieces(file))
        size = size_of(file)
        for info in self._zip.infolist():
            key = info.filename.removesuffix(".npy")
            if key in self.members:
                raise DataError(path, ascii(key)[1:-1], "two entries of this name", "one")
            self.members[key] = info
            self._check_declared_size(ascii(key)[1:-1], info, size)

    def __contains__(self, key: str) -> bool:
        return key in self.members

    def _check_declared_size(self, field: str, info: zipfile.ZipInfo, size: int) -> None:
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            actual = f"compression method {info.compress_type}"
            raise DataError(self.path, field, actual, "stored or deflated")
        if info.compress_size > size:
            actual = f"{info.compress_size} compressed bytes"
            raise DataError(self.path, field, actual, f"at most the file's {size}")
        ratio = 1 if info.compress_type == zipfile.ZIP_STORED else MAX_DEFLATE_RATIO
        limit = min(MAX_MEMBER_BYTES, ratio * info.compress_size)
        if info.file_size > limit:
            raise DataError(self.path, field, f"{info.file_size} bytes", f"at most {limit}")

    def header(self, key: str, expected: str = "it") -> Header:
        """Return the header of an array.

        Raises:
            DataError: there is no such array (the message says what is ``expected``), it is not
                npy 1.0 or 2.0, has objects or structures, or another size than the member's.
        """
        if key not in self:
            keys = ascii(sorted(self.members)[:20])[:300]
            raise DataError(self.path, key, f"no such key among {keys}", expected)
        with reading(self.path, key, "an npy array"):
            with self._zip.open(self.members[key]) as file:
                head = io.BytesIO(file.read(MAX_HEADER_BYTES + 16))
            shape, fortran_order, dtype = _parse_header(head)
        if dtype.hasobject or dtype.kind not in "biufc":
            raise DataError(self.path, key, f"dtype {dtype}", "numbers, no pickled objects")
        if not _possible(shape, dtype):
            actual = f"shape {shape}"[:200]
            raise DataError(self.path, key, actual, f"at most {MAX_MEMBER_BYTES} bytes")
        header, size = Header(shape, dtype, bool(fortran_order), head.tell()), self.members[key]
        if header.offset + header.nbytes != size.file_size:
            actual = f"a header for {header.nbytes} bytes (shape {shape}, {dtype})"
            expected = f"{size.file_size - header.offset}, the member's size"
            raise DataError(self.path, key, actual, expected)
        return header

    def read(self, headers: Mapping[str, Header]) -> dict[str, np.ndarray]:
        """Return whole arrays, in the stored type and order of elements.

        Raises:
            DataError: the data of one end early or fail their checksum, or all of them together
                are too large.
        """
        total = 0
        for key, header in headers.items():
            total += header.nbytes
            if total > MAX_WHOLE_BYTES:
                expected = f"at most {MAX_WHOLE_BYTES} bytes in the arrays that are read whole"
                raise DataError(self.path, key, f"{header.nbytes} bytes", expected)
        arrays = {}
        for key, header in headers.items():
            (flat,) = self._pieces(key, header, [math.prod(header.shape)])
            order = "F" if header.fortran_order else "C"
            arrays[key] = flat.reshape(header.shape, order=order)
        return arrays

    def chunks(self, key: str, header: Header) -> Iterator[np.ndarray]:
        """Yield consecutive rows of an array, a mebibyte or so at a time, in the stored type.

        Only one piece is held at a time, unless the array is in Fortran order, which is read whole;
        raises as :meth:`read`.
        """
        row = math.prod(header.shape[1:])
        rows = max(1, CHUNK_BYTES // max(1, row * header.dtype.itemsize))
        starts = range(0, header.shape[0], rows)
        if header.fortran_order and len(header.shape) > 1:
            array = self.read({key: header})[key]
            yield from (array[start : start + rows] for start in starts)
            return
        counts = [min(rows, header.shape[0] - start) * row for start in starts]
        for flat in self._pieces(key, header, counts):
            yield flat.reshape(-1 if row else rows, *header.shape[1:])

    def _pieces(self, key: str, header: Header, counts: list[int]) -> Iterator[np.ndarray]:
        """Yield so many numbers each time, which must use the member up; no more is allocated than
        there is."""
        with reading(self.path, key, "a readable zip entry"):
            file = self._zip.open(self.members[key])
        with file:
            for place, count in enumerate([header.offset, *counts]):
                data, size = bytearray(), count * (header.dtype.itemsize if place else 1)
                with reading(self.path, key, "intact data"):
                    while len(data) < size:
                        piece = file.read(min(size - len(data), PIECE_BYTES))
                        if not piece:
                            raise EOFError(f"the data end {size - len(data)} bytes early")
                        data += piece
                if place:
                    yield np.frombuffer(data, header.dtype)
            with reading(self.path, key, "intact data"):
                file.read(1)  # where it ends, the checksum is compared


@contextmanager
def opened(path: Path | str) -> Iterator[Archive]:
    """Open an npz file; none of its arrays is read yet.

    Raises:
        DataError: not a zip archive, an entry twice, or an entry whose declared size cannot be.
        UnreadableError: the file cannot be opened or read, which says nothing of its content.
    """
    with open_regular(path) as file:
        yield Archive(Path(path), file)


class _Pieces:
    """A file for zipfile, which holds at once what it reads at once, so that no piece is big."""

    def __init__(self, file: io.BufferedReader):
        self._file, self.seek, self.tell, self.seekable = file, file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"a directory of {size} bytes")
        return self._file.read(size)


def _parse_header(head: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(head)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"npy version {version}")
    parse = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
    try:
        return parse(head, max_header_size=MAX_HEADER_BYTES)
    except MemoryError:  # Python's parser says so of expressions that are nested too deeply
        raise ValueError("a header that is nested too deeply") from None


def _possible(shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Return whether numpy can hold such an array; it counts bytes as if no length were zero."""
    if len(shape) > MAX_DIMENSIONS or not all(type(n) is int and n >= 0 for n in shape):
        return False
    return math.prod(max(n, 1) for n in shape) * dtype.itemsize <= MAX_MEMBER_BYTES


def write_arrays(path: Path | str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write an npz archive, whole or not at all: the same arrays give the same bytes, for numpy
    dates every entry 1980-01-01."""
    with atomic_file(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(file, **arrays)
