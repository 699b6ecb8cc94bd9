"""Opening files that others made: regular ones only, their size known before they are read.

A name in a folder may stand for anything: a pipe that nobody writes to, a device that never ends.
And what goes wrong with a file is of two kinds. Its *content* may be no good: a
:class:`lib.files.errors.DataError`, after which one can go on with other files. Or the *machine*
does not give it: no permission, no such file any more, too many open files, a failing disk. Then
nothing is known of the content, and an :class:`UnreadableError` ends whatever reads it.
"""

from __future__ import annotations

import io
import os
import stat
from pathlib import Path

from lib.files.errors import DataError


class UnreadableError(DataError):
    """A file that could not be read, for a reason that is not its content."""


def open_regular(path: Path | str) -> io.BufferedReader:
    """Open a regular file, or a link to one, for reading bytes; never waits for a writer.

    Raises:
        DataError: it is a folder, a pipe, a socket or a device.
        UnreadableError: it cannot be opened; also raised by what reads from it.
    """
    try:
        _check_regular(path, Path(path).stat())  # so that no device is opened, which may act on it
        file = _File(path, opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))
    except OSError as error:
        raise unreadable(path, error) from None
    try:
        _check_regular(path, os.fstat(file.fileno()))  # it may be another by now
        return io.BufferedReader(file)
    except BaseException:
        file.close()
        raise


def size_of(file: io.BufferedReader) -> int:
    """Bytes of an open file."""
    return os.fstat(file.fileno()).st_size


def read_regular(path: Path | str, most: int) -> bytes:
    """The bytes of a regular file.

    Raises:
        DataError: as :func:`open_regular`, or there are more than ``most`` bytes.
        UnreadableError: as :func:`open_regular`.
    """
    with open_regular(path) as file:
        size = size_of(file)
        if size > most:
            raise DataError(path, "file", f"{size} bytes", f"at most {most}")
        return file.read(size)


def check_regular(path: Path | str) -> None:
    """Raise as :func:`open_regular` would, for readers that open files themselves."""
    open_regular(path).close()


def unreadable(path: Path | str, error: OSError) -> UnreadableError:
    """Return what to raise of a file instead of an error of the operating system."""
    return UnreadableError(path, "file", error.strerror or error, "a readable file")


class _File(io.FileIO):
    """A file whose failing reads name it, and cannot be mistaken for bad content."""

    def readinto(self, buffer) -> int | None:
        try:
            return super().readinto(buffer)
        except OSError as error:
            raise unreadable(self.name, error) from None

    def readall(self) -> bytes:
        try:
            return super().readall()
        except OSError as error:
            raise unreadable(self.name, error) from None


def _check_regular(path: Path | str, status: os.stat_result) -> None:
    mode = status.st_mode
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(mode), "a device")
        raise DataError(path, "file", kind, "a regular file")
