"""Files from others, whose bytes may be damaged: every way in which that ends is one error."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lib.files.errors import DataError

ZLIB_MEMORY = -4  # what zlib calls a lack of memory, Z_MEM_ERROR

# What zipfile, zlib and numpy.lib.format raise on bytes that are not what they say.
_BROKEN = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    tokenize.TokenError,
    EOFError,
    LookupError,
    OSError,  # of seeking to where nothing is, or of no such file
    OverflowError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
)


@contextmanager
def reading(path: Path | str, field: str, expected: str) -> Iterator[None]:
    """Turn whatever damaged bytes raise into one :class:`DataError`.

    Args:
        path, field: what is read, for the message.
        expected: in words.
    """
    try:
        yield
    except _BROKEN as error:
        if isinstance(error, zlib.error) and f"Error {ZLIB_MEMORY} " in str(error):
            raise MemoryError from None
        problem = " ".join(f"{type(error).__name__} {error}".split())[:200]
        raise DataError(path, field, problem, expected) from None
