"""Tar archives of npz files, extracted without trusting them.

Only plain files directly in one expected folder come out; anything else refuses the archive.
``tarfile`` reads the headers, but takes a damaged or missing one for the end of the archive, so
the end is checked as well: nothing but zeros follows the last member.
"""

from __future__ import annotations

import hashlib
import os
import tarfile
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from lib.files.errors import DataError
from lib.files.regular import open_regular, size_of

CHUNK_BYTES = 2**20
MAX_MEMBERS = 100_000  # the largest official archive has a few thousand
MAX_MEMBER_BYTES = 2**35  # 32 GiB
SUFFIX = ".npz"

# What tarfile raises on headers that are not what they say.
_BROKEN = (
    tarfile.TarError,
    EOFError,
    LookupError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)


def extract(archive: Path, name: str, prefix: PurePosixPath, folder: Path) -> dict[str, Any]:
    """Extract the files ``<prefix>/*.npz`` of a tar archive into an empty folder.

    Args:
        archive: the uncompressed tar file.
        name: what messages call it.
        prefix: the one folder of the archive that may have files.
        folder: where the files go, without the prefix; on an error some are there already.

    Returns:
        ``{file name: {"size": bytes, "sha256": digits}}``.

    Raises:
        DataError: it is no tar archive, is cut short, is empty, or has a member that is not one
            of the files above (or a folder on the way to them).
    """
    files: dict[str, Any] = {}
    with open_regular(archive) as file:
        total, end = size_of(file), 0
        try:
            with tarfile.TarFile(fileobj=_Bounded(file), encoding="utf-8") as tar:  # type: ignore[arg-type]
                for count, member in enumerate(tar, 1):
                    if count > MAX_MEMBERS:
                        raise DataError(name, "members", f"over {MAX_MEMBERS}", "fewer")
                    end = _check_extent(name, member, end, total)
                    target = _target(name, member, prefix)
                    if target is None:
                        continue
                    if target in files:
                        raise DataError(name, _field(member), "twice", "each name once")
                    file.seek(member.offset_data)
                    digest = _copy(file, member.size, folder / target)
                    files[target] = {"size": member.size, "sha256": digest}
        except _BROKEN as error:
            raise DataError(name, "tar", str(error) or type(error).__name__, "a tar") from None
        _check_end(name, file, end)
    if not files:
        raise DataError(name, "members", "no files", f"{prefix}/*{SUFFIX}")
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


def _check_extent(name: str, member: tarfile.TarInfo, end: int, total: int) -> int:
    """Where the member ends; it begins behind the last one and lies within the archive."""
    room = min(total - member.offset_data, MAX_MEMBER_BYTES)
    if not 0 <= member.size <= room:
        raise DataError(name, _field(member), f"{member.size} bytes", f"at most {max(room, 0)}")
    if member.offset_data < end + tarfile.BLOCKSIZE:
        raise DataError(name, _field(member), "a header that points back", "one after another")
    size = 0 if member.isdir() else member.size
    return member.offset_data + -(-size // tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE


def _target(name: str, member: tarfile.TarInfo, prefix: PurePosixPath) -> str | None:
    """The file name a member is extracted to; ``None`` for a folder on the way there."""
    if member.isdir():
        if PurePosixPath(member.name) in (prefix, *prefix.parents):
            return None
        raise DataError(name, _field(member), "a folder", f"{prefix} only")
    if member.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or member.issparse():
        raise DataError(name, _field(member), _kind(member), "regular files and folders only")
    folder, _, target = member.name.removeprefix("./").rpartition("/")
    hidden, odd = target.startswith("."), not target.isprintable() or set(target) & set("\\:")
    long = len(target.encode("utf-8", "surrogateescape")) > 255
    if folder != str(prefix) or not target.endswith(SUFFIX) or hidden or odd or long:
        raise DataError(name, "member", ascii(member.name)[:300], f"{prefix}/*{SUFFIX}")
    return target


def _field(member: tarfile.TarInfo) -> str:
    return f"member {ascii(member.name)[:300]}"


def _kind(member: tarfile.TarInfo) -> str:
    kinds = {tarfile.SYMTYPE: "a symbolic link", tarfile.LNKTYPE: "a hard link"}
    kinds |= {tarfile.CHRTYPE: "a device", tarfile.BLKTYPE: "a device", tarfile.FIFOTYPE: "a pipe"}
    return kinds.get(member.type, f"type {member.type!r}")


def _copy(file: BinaryIO, size: int, target: Path) -> str:
    digest = hashlib.sha256()
    with target.open("xb") as out:
        while size:
            chunk = file.read(min(size, CHUNK_BYTES))
            if not chunk:
                raise tarfile.ReadError("unexpected end of data")
            out.write(chunk)
            digest.update(chunk)
            size -= len(chunk)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


def _check_end(name: str, file: BinaryIO, end: int) -> None:
    file.seek(end)
    first = chunk = file.read(CHUNK_BYTES)
    if len(first) < tarfile.BLOCKSIZE:
        raise DataError(name, "end", "cut short", "a whole tar archive")
    while chunk:
        if chunk.count(0) != len(chunk):
            raise DataError(name, f"byte {end} on", "no tar header", "a member, or zeros")
        chunk = file.read(CHUNK_BYTES)
