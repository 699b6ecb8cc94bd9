"""Zip archives of npy arrays, read without trusting them and written with the same bytes each time.

Nothing is allocated before the npy header, the zip directory and the size of the file on disk
agree on how much there is. Pickles and object arrays are refused from their header alone. Big
arrays can be read in chunks of rows, so that no caller needs to hold one densely.
"""

from __future__ import annotations

import copy
import io
import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np

from lib.files.artifacts import atomic_file
from lib.files.errors import DataError
from lib.files.regular import open_regular, size_of

MAX_MEMBER_BYTES = 2**36  # 64 GiB; the largest official array has a few GB
MAX_WHOLE_BYTES = 2**28  # of the arrays read whole; the largest official graph has 60 MB
MAX_DEFLATE_RATIO = 1032  # what deflate can reach at most; a bigger claim is a lie
MAX_HEADER_BYTES = 10_000  # as in numpy
MAX_DIRECTORY_BYTES = 2**20  # of a zip archive's list of members; ours have ten
MAX_DIMENSIONS = 8  # of an array; the official ones have at most 3
ZLIB_MEMORY = -4  # what zlib calls a lack of memory, Z_MEM_ERROR
CHUNK_BYTES = 2**20  # how much is decoded at a time
PIECE_BYTES = 2**17  # how much is read from the file at a time

# What zipfile, zlib and numpy.lib.format raise on bytes that are not what they say.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    EOFError,
    LookupError,
    OSError,  # of seeking to where nothing is; those of reading are UnreadableError
    OverflowError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


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
def _believing(path: Path | str, field: str, expected: str) -> Iterator[None]:
    try:
        yield
    except _BROKEN as error:
        if isinstance(error, zlib.error) and f"Error {ZLIB_MEMORY} " in str(error):
            raise MemoryError from None
        found = " ".join(f"{type(error).__name__} {error}".split())[:200]
        raise DataError(path, field, found, expected) from None


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
        with _believing(path, "file", "a readable npz archive"):
            archive = zipfile.ZipFile(_Pieces(file))
        with archive:
            members: dict[str, Member] = {}
            for info in archive.infolist():
                key = info.filename.removesuffix(".npy")
                if key in members:
                    raise DataError(path, ascii(key)[1:-1], "two entries of this name", "one")
                members[key] = Member(path, key, archive, info)
                _check_declared_size(members[key], size)
            yield members


class _Pieces:
    """A file that is never read in big pieces: what zipfile reads at once, it holds at once."""

    def __init__(self, file: io.BufferedReader):
        self._file, self.seek, self.tell, self.seekable = file, file.seek, file.tell, file.seekable

    def read(self, size: int = -1) -> bytes:
        if size > MAX_DIRECTORY_BYTES:
            raise zipfile.BadZipFile(f"a directory of {size} bytes")
        return self._file.read(size)


def _check_declared_size(member: Member, archive_size: int) -> None:
    info, field = member.info, ascii(member.key)[1:-1]
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        found = f"compression method {info.compress_type}"
        raise DataError(member.path, field, found, "stored or deflated")
    if info.compress_size > archive_size:
        found = f"{info.compress_size} compressed bytes"
        raise DataError(member.path, field, found, f"at most the file's {archive_size}")
    ratio = 1 if info.compress_type == zipfile.ZIP_STORED else MAX_DEFLATE_RATIO
    limit = min(MAX_MEMBER_BYTES, ratio * info.compress_size)
    if info.file_size > limit:
        raise DataError(member.path, field, f"{info.file_size} bytes", f"at most {limit}")


def read_header(member: Member) -> Header:
    """Read the npy header of a member, and nothing else.

    Raises:
        DataError: not npy 1.0 or 2.0, an object or structured type, or a size other than the
            member's.
    """
    with _believing(member.path, member.key, "an npy array"):
        with member.archive.open(member.info) as file:
            head = io.BytesIO(file.read(MAX_HEADER_BYTES + 16))
        shape, fortran_order, dtype = _parse_header(head)
    if dtype.hasobject or dtype.kind not in "biufc":
        raise DataError(member.path, member.key, f"dtype {dtype}", "numbers, no pickled objects")
    if not _possible(shape, dtype):
        found = f"shape {shape}"[:200]
        raise DataError(member.path, member.key, found, f"at most {MAX_MEMBER_BYTES} bytes")
    header = Header(shape, dtype, bool(fortran_order), head.tell())
    if header.offset + header.nbytes != member.info.file_size:
        found = f"a header for {header.nbytes} bytes (shape {shape}, {dtype})"
        expected = f"{member.info.file_size - header.offset}, the member's size"
        raise DataError(member.path, member.key, found, expected)
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
        with _believing(self.member.path, self.member.key, "intact data"):
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
        with _believing(self.member.path, self.member.key, "intact data"):
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
    with _believing(member.path, member.key, "a readable zip entry"):
        file = member.archive.open(packed)
    with file:
        content = _Content(member, file)
        content.read((header.offset,), np.dtype(np.uint8))
        yield content
        content.finish()


def write_members(path: Path | str, arrays: Mapping[str, tuple[str, np.ndarray]]) -> None:
    """Write an npz archive, whole or not at all: the same arrays give the same bytes.

    Args:
        path: the file to write.
        arrays: key -> (dtype string such as ``"<f4"``, array). The array is cast while it is
            written, in chunks of rows.
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
