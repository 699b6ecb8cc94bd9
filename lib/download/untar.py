"""Tar archives of npz files, extracted without trusting them.

Only plain files directly in one expected folder come out; anything else refuses the archive.
``tarfile`` reads the headers, but takes a damaged or missing one for the end of the archive, so
the end is checked as well: nothing but zeros follows the last member.
"""

from __future__ import annotations

import os
import re
import shutil
import tarfile
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from lib.files.errors import DataError
from lib.files.regular import open_regular, size_of

CHUNK_BYTES = 2**20

# What tarfile raises on headers that are not what they say.
_BROKEN = (
    *(tarfile.TarError, EOFError, LookupError, OverflowError),
    *(RecursionError, TypeError, ValueError),
)


def extract(archive: Path, name: str, prefix: PurePosixPath, folder: Path) -> dict[str, int]:
    """Extract the files ``<prefix>/*.npz`` of a tar archive into an empty folder.

    Args:
        archive: the uncompressed tar file.
        name: what messages call it.
        prefix: the one folder of the archive that may have files.
        folder: where the files go, without the prefix; on an error some are there already.

    Returns:
        The bytes of each file.

    Raises:
        DataError: it is no tar archive, is cut short, is empty, or has a file that is not one
            of those above.
    """
    files: dict[str, int] = {}
    with open_regular(archive) as file:
        left = size_of(file)
        try:
            with tarfile.TarFile(fileobj=_Bounded(file), encoding="utf-8") as tar:  # type: ignore[arg-type]
                for member in tar:
                    left -= member.size
                    if member.size < 0 or left < 0:  # they may point back, and repeat each other
                        raise DataError(name, _field(member), f"{member.size} bytes", "fewer")
                    if not member.isdir():
                        target = _target(name, member, prefix)
                        if target in files:
                            raise DataError(name, _field(member), "twice", "each name once")
                        _copy(tar, member, folder / target)
                        files[target] = member.size
        except _BROKEN as error:
            raise DataError(name, "tar", str(error) or type(error).__name__, "a tar") from None
        _check_end(name, file, tar.offset)
    if not files:
        raise DataError(name, "members", "no files", f"{prefix}/*.npz")
    return files


class _Bounded:
    """A file that is never read in big pieces: the headers of an honest tar are small."""

    name = None

    def __init__(self, file: BinaryIO):
        self._file, self.seek, self.tell = file, file.seek, file.tell

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= CHUNK_BYTES:
            raise tarfile.ReadError(f"a header of {size} bytes")
        return self._file.read(size)


def _target(name: str, member: tarfile.TarInfo, prefix: PurePosixPath) -> str:
    """The file name that a member is extracted to."""
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
        raise DataError(name, _field(member), f"type {member.type!r}", "files and folders only")
    match = re.fullmatch(rf"(?:\./)?{prefix}/([^./\\:][^/\\:]*\.npz)", member.name)
    if match is None or not match[1].isprintable() or len(match[1].encode()) > 255:
        raise DataError(name, "member", ascii(member.name)[:300], f"{prefix}/*.npz")
    return match[1]


def _field(member: tarfile.TarInfo) -> str:
    return f"member {ascii(member.name)[:300]}"


def _copy(tar: tarfile.TarFile, member: tarfile.TarInfo, target: Path) -> None:
    with tar.extractfile(member) as source, target.open("xb") as out:  # type: ignore[union-attr]
        shutil.copyfileobj(source, out)
        out.flush()
        os.fsync(out.fileno())


def _check_end(name: str, file: BinaryIO, end: int) -> None:
    file.seek(end)
    first = chunk = file.read(CHUNK_BYTES)
    if len(first) < tarfile.BLOCKSIZE:
        raise DataError(name, "end", "cut short", "a whole tar archive")
    while chunk:
        if chunk.count(0) != len(chunk):
            raise DataError(name, f"byte {end} on", "no tar header", "a member, or zeros")
        chunk = file.read(CHUNK_BYTES)
