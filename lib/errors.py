"""Errors that a user can mend, told in one line.

Every stage runs inside :func:`one_line_errors`: a :class:`UserError` becomes one line on
standard error and exit code 2; anything else is a defect of ours and keeps its traceback.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class UserError(Exception):
    """A wrong name, flag or file. The message is one line that says what to do instead."""


class DataError(UserError):
    """A file that cannot be believed.

    Args:
        path: the file.
        field: the key, column or message field at fault.
        found: what stands there.
        expected: what should stand there.
    """

    def __init__(self, path: Path | str, field: str, found: object, expected: object):
        # Plain strings, which survive the way back from a worker process.
        super().__init__(str(path), field, str(found), str(expected))
        self.path, self.field = Path(path), field

    def __str__(self) -> str:
        path, field, found, expected = self.args
        return f"{path}: {field}: found {found}, expected {expected}"


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn a :class:`UserError` into one line on standard error and exit code 2."""
    try:
        yield
    except UserError as error:
        print("error: " + " ".join(str(error).split()), file=sys.stderr)
        sys.exit(2)
    except BrokenPipeError:  # who read our output (head, less) has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except KeyboardInterrupt:
        print("interrupted; run the same command again to go on", file=sys.stderr)
        sys.exit(130)
