"""Tables on disk: parquet files that hold a checksum of themselves.

The checksum is an entry of the file's own metadata, so that any tool reads the table, and it is
checked before anything else is believed: readers of damaged parquet may give other numbers, or
crash. Its digits stand for the file's other bytes.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from lib.files.checksum import checksum_of
from lib.files.errors import DataError
from lib.files.regular import check_regular, open_regular

SYSTEM_ERROR = re.compile(r"\(os error (\d+)\)")  # how polars tells what the system refused
KEY, BLANK, DIGITS = "checksum", "crc32:", 8
# The key and what stands before the digits, as a footer has them (Thrift's compact protocol: a
# field of type string, its length, its bytes).
MARK = KEY.encode() + bytes([0x18, len(BLANK) + DIGITS]) + BLANK.encode()
TAIL = 1 << 16  # bytes at the end of a file that the mark is among
COLUMN_TYPES = {
    "text": lambda dtype: dtype == pl.String,
    "flag": lambda dtype: dtype == pl.Boolean,
    "integer": lambda dtype: dtype.is_integer(),
    "number": lambda dtype: dtype.is_numeric(),
    "list of integer": lambda dtype: isinstance(dtype, pl.List) and dtype.inner.is_integer(),
}


def write_parquet(frame: pl.DataFrame, path: Path) -> None:
    """Write a table and its checksum; the same table gives the same bytes.

    Raises:
        OSError: it cannot be written.
    """
    try:
        frame.write_parquet(path, metadata={KEY: BLANK + "0" * DIGITS})
    except (OSError, pl.exceptions.PolarsError) as error:
        refused = SYSTEM_ERROR.search(str(error))
        if refused is None:
            raise
        number = int(refused[1])
        raise OSError(number, os.strerror(number), str(path)) from None
    place = _digits(path)
    digits = checksum_of(path, (place, place + DIGITS))
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(digits.encode())


def read_parquet(
    path: Path,
    columns: Mapping[str, str],
    advice: str,
    where: pl.Expr | None = None,
    others: bool = False,
) -> pl.DataFrame:
    """Read a table that :func:`write_parquet` wrote.

    Args:
        path: the file.
        columns: what must be there: the type of each, one of ``COLUMN_TYPES``; with a question
            mark, as in ``integer?``, it may have nulls.
        advice: what to do if it is not.
        where: which rows to read, ``None`` for all.
        others: whether to read all columns instead of ``columns`` alone.

    Raises:
        DataError: the file is missing or damaged, or the table is another one.
    """
    try:
        check_regular(path)
    except DataError as error:
        raise DataError(path, "file", error.found, f"a table; {advice}") from None
    try:
        _check(path, advice)
    except OSError as error:
        raise _unreadable(path, error, advice) from None
    return _read(path, columns, advice, where, others)


def read_foreign_parquet(
    path: Path, columns: Mapping[str, str], advice: str, where: pl.Expr | None = None
) -> pl.DataFrame:
    """Read a table that anybody may have written, with a checksum or without.

    Args:
        path, columns, advice, where: as in :func:`read_parquet`.

    Raises:
        DataError: as :func:`read_parquet`, or it is no regular file.
    """
    check_regular(path)
    if _digits(path) is not None:
        _check(path, advice)
    with _silent():
        return _read(path, columns, advice, where, others=False)


def _read(
    path: Path, columns: Mapping[str, str], advice: str, where: pl.Expr | None, others: bool
) -> pl.DataFrame:
    try:
        frame = pl.scan_parquet(path)
        schema = frame.collect_schema()
        for name, kind in columns.items():
            if name not in schema:
                raise DataError(path, name, "no such column", f"it; {advice}")
            if schema[name] != pl.Null and not COLUMN_TYPES[kind.removesuffix("?")](schema[name]):
                raise DataError(path, name, schema[name], f"{kind.removesuffix('?')}s; {advice}")
        frame = frame if where is None else frame.filter(where)
        found = (frame if others else frame.select(list(columns))).collect()
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _unreadable(path, error, advice) from None
    for name, kind in columns.items():
        if not kind.endswith("?") and found[name].null_count():
            raise DataError(path, name, "an empty cell", f"{kind}s; {advice}")
    return found


def _unreadable(path: Path, error: BaseException, advice: str) -> DataError:
    reason = getattr(error, "strerror", None) or error
    return DataError(path, "file", reason, f"a table; {advice}")


@contextmanager
def _silent() -> Iterator[None]:
    """Nothing is written to standard error: polars says there at length that it panics."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _check(path: Path, advice: str) -> None:
    place = _digits(path)
    if place is None:
        raise DataError(path, KEY, "none", f"one, as every table has that is whole; {advice}")
    with open_regular(path) as file:
        file.seek(place)
        told = file.read(DIGITS).decode("latin-1")
    found = checksum_of(path, (place, place + DIGITS))
    if found != told:
        raise DataError(path, KEY, f"{found} (damaged)", f"{told}; {advice}")


def _digits(path: Path) -> int | None:
    """Where the digits of a table's checksum begin."""
    with open_regular(path) as file:
        start = max(0, file.seek(0, os.SEEK_END) - TAIL)
        file.seek(start)
        place = file.read().rfind(MARK)
    return None if place < 0 else start + place + len(MARK)
