"""The arrays of an npz archive, whole or in chunks, so that no caller needs to hold one densely."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

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
        DataError: the data end early or fail their checksum, or such an array is too large.
    """
    if header.fortran_order and len(header.shape) > 1:
        array = read_arrays({member.key: member}, {member.key: header})[member.key]
        yield from (array[i : i + rows] for i in range(0, len(array), rows))
        return
    with _opened(member, header) as read:
        for start in range(0, header.shape[0], rows):
            yield read((min(rows, header.shape[0] - start), *header.shape[1:]))


def read_arrays(
    members: Mapping[str, Member], headers: Mapping[str, Header]
) -> dict[str, np.ndarray]:
    """Read whole arrays, in the stored type and order of elements; raises DataError as for
    :func:`iter_chunks`, or all of them together are too large."""
    total = 0
    for key, header in headers.items():
        total += header.nbytes
        if total > MAX_WHOLE_BYTES:
            expected = f"at most {MAX_WHOLE_BYTES} bytes in the arrays that are read whole"
            raise DataError(members[key].path, key, f"{header.nbytes} bytes", expected)
    return {key: _read_array(members[key], header) for key, header in headers.items()}


def _read_array(member: Member, header: Header) -> np.ndarray:
    with _opened(member, header) as read:
        array = read((math.prod(header.shape),))
    return array.reshape(header.shape, order="F" if header.fortran_order else "C")


@contextmanager
def _opened(member: Member, header: Header) -> Iterator[Callable[[tuple[int, ...]], np.ndarray]]:
    """What reads the next array of a shape; the member must be used up to its end."""
    with believing(member.path, member.key, "a readable zip entry"):
        file = member.archive.open(member.info)

    def read(shape: tuple[int, ...], dtype: np.dtype = header.dtype) -> np.ndarray:
        """No more than is there is allocated."""
        data, size = bytearray(), math.prod(shape) * dtype.itemsize
        with believing(member.path, member.key, "intact data"):
            while len(data) < size:
                piece = file.read(min(size - len(data), PIECE_BYTES))
                if not piece:
                    raise EOFError(f"the data end {size - len(data)} bytes early")
                data += piece
        return np.frombuffer(data, dtype).reshape(shape)

    with file:
        read((header.offset,), np.dtype(np.uint8))
        yield read
        with believing(member.path, member.key, "intact data"):
            file.read(1)  # where it ends, the checksum is compared
