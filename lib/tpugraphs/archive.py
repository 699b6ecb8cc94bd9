"""Zip archives of npy arrays, read without trusting them and written with the same bytes each time.

Nothing is allocated before the npy header, the zip directory and the size of the file on disk
agree on how much there is. Pickles and object arrays are refused from their header alone. The
arrays themselves are read by :mod:`lib.tpugraphs.arrays`.
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
from lib.files.believing import Pieces, believing
from lib.files.errors import DataError
from lib.files.regular import open_regular, size_of

MAX_MEMBER_BYTES = 2**36  # 64 GiB; the largest official array has a few GB
MAX_DEFLATE_RATIO = 1032  # what deflate can reach at most; a bigger claim is a lie
MAX_HEADER_BYTES = 10_000  # as in numpy
MAX_DIMENSIONS = 8  # of an array; the official ones have at most 3
CHUNK_BYTES = 2**20  # how much is decoded or written at a time


@dataclass(frozen=True)
class Member:
    """An array of an open archive: where it is from, its key, and its entry in the directory."""

    path: Path
    key: str
    archive: zipfile.ZipFile
    info: zipfile.ZipInfo


@dataclass(frozen=True)
class Header:
    """The header of an npy member, checked against the size of the member.

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


@contextmanager
def open_members(path: Path | str) -> Iterator[dict[str, Member]]:
    """Yield the members of an npz archive by key (the name without ``.npy``); none is read yet.

    Raises:
        DataError: not a zip archive, an entry twice, or an entry whose declared size cannot be.
        UnreadableError: the file cannot be opened or read, which says nothing of its content.
    """
    path = Path(path)
    with open_regular(path) as file:
        size = size_of(file)
        with believing(path, "file", "a readable npz archive"):
            archive = zipfile.ZipFile(Pieces(file))
        with archive:
            members: dict[str, Member] = {}
            for info in archive.infolist():
                key = info.filename.removesuffix(".npy")
                if key in members:
                    raise DataError(path, ascii(key)[1:-1], "two entries of this name", "one")
                members[key] = Member(path, key, archive, info)
                _check_declared_size(members[key], size)
            yield members


def _check_declared_size(member: Member, archive_size: int) -> None:
    info, field = member.info, ascii(member.key)[1:-1]
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        actual = f"compression method {info.compress_type}"
        raise DataError(member.path, field, actual, "stored or deflated")
    if info.compress_size > archive_size:
        actual = f"{info.compress_size} compressed bytes"
        raise DataError(member.path, field, actual, f"at most the file's {archive_size}")
    ratio = 1 if info.compress_type == zipfile.ZIP_STORED else MAX_DEFLATE_RATIO
    limit = min(MAX_MEMBER_BYTES, ratio * info.compress_size)
    if info.file_size > limit:
        raise DataError(member.path, field, f"{info.file_size} bytes", f"at most {limit}")


def read_header(member: Member) -> Header:
    """Read the npy header of a member, and nothing else; raises DataError if not npy 1.0 or 2.0, an
    object or structured type, or a size other than the member's."""
    with believing(member.path, member.key, "an npy array"):
        with member.archive.open(member.info) as file:
            head = io.BytesIO(file.read(MAX_HEADER_BYTES + 16))
        shape, fortran_order, dtype = _parse_header(head)
    if dtype.hasobject or dtype.kind not in "biufc":
        raise DataError(member.path, member.key, f"dtype {dtype}", "numbers, no pickled objects")
    if not _possible(shape, dtype):
        actual = f"shape {shape}"[:200]
        raise DataError(member.path, member.key, actual, f"at most {MAX_MEMBER_BYTES} bytes")
    header = Header(shape, dtype, bool(fortran_order), head.tell())
    if header.offset + header.nbytes != member.info.file_size:
        actual = f"a header for {header.nbytes} bytes (shape {shape}, {dtype})"
        expected = f"{member.info.file_size - header.offset}, the member's size"
        raise DataError(member.path, member.key, actual, expected)
    return header


def _parse_header(head: io.BytesIO) -> tuple[tuple[int, ...], bool, np.dtype]:
    version = np.lib.format.read_magic(head)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"npy version {version}")
    minor = 1 if version == (1, 0) else 2
    parse = getattr(np.lib.format, f"read_array_header_{minor}_0")
    try:
        return parse(head, max_header_size=MAX_HEADER_BYTES)
    except MemoryError:  # Python's parser says so of expressions that are nested too deeply
        raise ValueError("a header that is nested too deeply") from None


def _possible(shape: tuple[int, ...], dtype: np.dtype) -> bool:
    """Whether numpy can hold such an array; it counts bytes as if no length were zero."""
    if len(shape) > MAX_DIMENSIONS or not all(type(n) is int and n >= 0 for n in shape):
        return False
    return math.prod(max(n, 1) for n in shape) * dtype.itemsize <= MAX_MEMBER_BYTES


def write_members(path: Path | str, arrays: Mapping[str, tuple[str, np.ndarray]]) -> None:
    """Write an npz archive, whole or not at all: the same arrays give the same bytes.

    ``arrays`` has a dtype such as ``"<f4"`` with each array, which is cast while it is written.
    """
    with (
        atomic_file(path) as temporary,
        zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive,
    ):
        for key, (dtype, array) in arrays.items():
            # An entry opened by its name is dated 1980-01-01 and takes the archive's level.
            with archive.open(f"{key}.npy", "w", force_zip64=True) as file:
                _write_array(file, array, dtype)


def _write_array(file: io.IOBase, array: np.ndarray, dtype: str) -> None:
    header = {"descr": dtype, "fortran_order": False, "shape": array.shape}
    np.lib.format.write_array_header_1_0(file, header)
    row_bytes = math.prod(array.shape[1:]) * np.dtype(dtype).itemsize
    rows = max(1, CHUNK_BYTES // max(1, row_bytes))
    starts = range(0, len(array), rows)
    file.writelines(array[start : start + rows].astype(dtype).tobytes() for start in starts)
