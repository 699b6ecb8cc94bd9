"""Errors that a user can mend, in one line.

Every stage runs inside :func:`one_line_errors`: a :class:`UserError`, and what the operating
system refuses (a full or read-only disk, a folder where a file is to be, memory), becomes one line
on standard error and exit code 2; anything else is a defect of ours and keeps its traceback.
"""

from __future__ import annotations

import errno
import os
import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lib import INTERRUPTED, INTERRUPTED_CODE
from lib.files.terminal import printable

NO_MEMORY = re.compile(
    "failed to map segment|cannot allocate memory|can't allocate memory|bad_alloc"
    "|can't start new thread",
    re.IGNORECASE,
)
REFUSALS = {os.strerror(number) for number in errno.errorcode}  # of the operating system


class UserError(Exception):
    """A wrong name, flag or file. The message is one line that says what to do instead."""


class DataError(UserError):
    """A file with something wrong in it.

    Args:
        path: the file.
        field: the key, column or message field at fault.
        actual: what stands there.
        expected: what should stand there.
    """

    def __init__(self, path: Path | str, field: str, actual: object, expected: object):
        # Plain strings, which survive the way back from a worker process.
        super().__init__(str(path), field, str(actual), str(expected))
        self.path, self.field, self.actual = Path(path), field, str(actual)

    def __str__(self) -> str:
        path, field, actual, expected = self.args
        if actual in REFUSALS:
            return f"{path}: {actual}; expected {expected}"
        return f"{path}: {field}: found {actual}, expected {expected}"


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn what a user can mend into one line on standard error and exit code 2.

    Also words of the command line that are not UTF-8: no file of ours could name them.
    """
    try:
        _check_words(sys.argv)
        yield
        _flush_output()
    except Exception as error:
        exit_because_of(error)
        raise
    except KeyboardInterrupt as error:
        exit_because_of(error)


def exit_because_of(error: BaseException) -> None:
    """End the process with one line if ``error`` is one that a user can mend."""
    if isinstance(error, BrokenPipeError):  # who read our output (head, less) has seen enough
        _drop_output()
        sys.exit(141)
    if isinstance(error, KeyboardInterrupt):
        _print(INTERRUPTED)
        sys.exit(INTERRUPTED_CODE)
    if isinstance(error, UserError | OSError | MemoryError) or _is_want_of_memory(error):
        with suppress(OSError):
            _flush_output()
        _print(f"error: {in_one_line(error)}")
        sys.exit(2)


def _print(line: str) -> None:
    print(f"{line}\n", end="", file=sys.stderr)  # in one piece: no other process's comes between


def _is_want_of_memory(error: BaseException) -> bool:
    """Return whether a library says that it got no memory, in words of its own."""
    return isinstance(error, ImportError | RuntimeError) and bool(NO_MEMORY.search(str(error)))


def in_one_line(error: BaseException) -> str:
    """Return what went wrong, without line breaks and what else terminals act on instead of showing
    it; of an OSError the file and the reason, without its number."""
    if isinstance(error, MemoryError) or _is_want_of_memory(error):
        text = f"out of memory{f': {error}' if str(error) else ''}"
    elif isinstance(error, OSError) and error.strerror is not None:
        names = (n for n in (error.filename, error.filename2) if isinstance(n, str | bytes))
        text = ": ".join([*map(os.fsdecode, names), error.strerror])
    else:
        text = str(error) or type(error).__name__
    return printable(" ".join(text.split()))


def _check_words(words: Iterable[str]) -> None:
    """Raise a UserError if a word has bytes that are not UTF-8, which Python has as surrogates."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UserError(f"{word!a}: not UTF-8, as names must be; rename it") from None


def _flush_output() -> None:
    """Write what was printed now: a full disk must not show after Python's last line."""
    try:
        sys.stdout.flush()
    except OSError as error:
        error.filename = "standard output"
        _drop_output()
        raise


def _drop_output() -> None:
    """Standard output goes nowhere from now on; Python flushes it once more at its end."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())
