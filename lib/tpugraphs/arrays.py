"""The arrays of an npz archive, whole or in chunks, so that no caller needs to hold one densely."""

from __future__ import annotations

import copy
import math
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO

import numpy as np

from lib.files.believing import believing
from lib.files.errors import DataError
from lib.tpugraphs.archive import Header, Member

MAX_WHOLE_BYTES = 2**28  # of the arrays read whole; the largest official graph has 60 MB
PIECE_BYTES = 2**17  # how much is read from the file at a time


def iter_chunks(member: Member, header: Header, rows: int) -> Iterator[np.ndarray]:
    """Yield consecutive pieces of at most ``rows`` rows, in the stored type.

    Only one piece is held at a time, unless the array is in Fortran order, which is read whole.

    Raises:
        DataError: the data end early, go on too long or fail their checksum, or the array is
            in Fortran order and too large.
    """
    if header.fortran_order and len(header.shape) > 1:
        array = read_arrays({member.key: member}, {member.key: header})[member.key]
        yield from (array[i : i + rows] for i in range(0, len(array), rows))
        return
    row_shape = header.shape[1:]
    with _opened(member, header) as content:
        for start in range(0, header.shape[0], rows):
            shape = (min(rows, header.shape[0] - start), *row_shape)
            yield content.read(shape, header.dtype)


def read_arrays(
    members: Mapping[str, Member], headers: Mapping[str, Header]
) -> dict[str, np.ndarray]:
    """Read whole arrays, in the stored type and order of elements.

    Raises:
        DataError: as for :func:`iter_chunks`, or all of them together are too large.
    """
    total = 0
    for key, header in headers.items():
        total += header.nbytes
        if total > MAX_WHOLE_BYTES:
            expected = f"at most {MAX_WHOLE_BYTES} bytes in the arrays that are read whole"
            raise DataError(members[key].path, key, f"{header.nbytes} bytes", expected)
    return {key: _read_array(members[key], header) for key, header in headers.items()}


def _read_array(member: Member, header: Header) -> np.ndarray:
    with _opened(member, header) as content:
        array = content.read((math.prod(header.shape),), header.dtype)
    array = array if array.flags.writeable else array.copy()
    return array.reshape(header.shape, order="F" if header.fortran_order else "C")


class _Content:
    """The bytes of a member, inflated and summed on the way, in half of ``ZipExtFile``'s time."""

    def __init__(self, member: Member, file: IO[bytes]):
        self.member, self.file, self.crc = member, file, 0
        deflated = member.info.compress_type == zipfile.ZIP_DEFLATED
        self.inflater = zlib.decompressobj(-zlib.MAX_WBITS) if deflated else None

    def read(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """The next array; raises DataError if the bytes end early or are not deflated ones."""
        size = math.prod(shape) * dtype.itemsize
        with believing(self.member.path, self.member.key, "intact data"):
            data = self._piece(size) if size else b""
            if len(data) < size:  # more often than not, all came at once
                data = self._joined(data, size)
        return np.frombuffer(data, dtype).reshape(shape)

    def _joined(self, piece: bytes, size: int) -> bytearray:
        """``piece`` and what follows it, ``size`` bytes; no more than is there is allocated."""
        data = bytearray(piece)
        while len(data) < size:
            piece = self._piece(size - len(data))
            if not piece:
                raise EOFError(f"the data end {size - len(data)} bytes early")
            data += piece
        return data

    def finish(self) -> None:
        """Raise DataError unless the member ends here and its checksum is right."""
        with believing(self.member.path, self.member.key, "intact data"):
            if self._piece(1):
                raise ValueError("bytes after the end of the array")
            if self.crc != self.member.info.CRC:
                raise ValueError("bytes of another checksum")

    def _piece(self, most: int) -> bytes:
        """Some of the next bytes, at most ``most``, which is positive; none at the end."""
        piece = packed = b""
        if self.inflater is None:
            piece = self.file.read(min(most, PIECE_BYTES))
        while self.inflater is not None and not piece:
            packed = self.inflater.unconsumed_tail or self.file.read(PIECE_BYTES)
            piece = self.inflater.decompress(packed, most)
            if not packed or self.inflater.eof:
                break
        self.crc = zlib.crc32(piece, self.crc)
        return piece


@contextmanager
def _opened(member: Member, header: Header) -> Iterator[_Content]:
    """The content of a member after its npy header, which must be used up to its end."""
    packed = copy.copy(member.info)  # zipfile checks its place and name, and inflates nothing
    packed.compress_type, packed.file_size = zipfile.ZIP_STORED, packed.compress_size
    del packed.CRC
    with believing(member.path, member.key, "a readable zip entry"):
        file = member.archive.open(packed)
    with file:
        content = _Content(member, file)
        content.read((header.offset,), np.dtype(np.uint8))
        yield content
        content.finish()
