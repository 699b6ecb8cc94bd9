"""Tables on disk: parquet files, read whole or not at all.

A file may come from anybody, and its name may stand for anything. It is checked to be a regular one
whose table fits into memory (a small file may unpack to a large one), with the columns that the
reader wants; all else is one error.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from lib.files.errors import DataError
from lib.files.regular import check_regular

# What a table may take in memory. The bundled tables take 42 times their files' bytes at most, and
# equal scores of a fold 19 times; so many equal rows that they fill memory take thousands.
SMALL, MOST_TIMES = 64 << 20, 100
CELL_BYTES = 8
UNREADABLE = (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException)
COLUMN_TYPES = {
    "text": lambda dtype: dtype == pl.String,
    "flag": lambda dtype: dtype == pl.Boolean,
    "integer": lambda dtype: dtype.is_integer(),
    "number": lambda dtype: dtype.is_numeric(),
    "list of integer": lambda dtype: isinstance(dtype, pl.List) and dtype.inner.is_integer(),
}


def write_parquet(
    frame: pl.DataFrame, path: Path, metadata: Mapping[str, str] | None = None
) -> None:
    """Write a table; the same table gives the same bytes.

    Args:
        frame, path: the table, and where to.
        metadata: words for the file's metadata.

    Raises:
        OSError: it cannot be written.
    """
    buffer = io.BytesIO()  # what polars writes to a full disk itself ends in errors of many kinds
    frame.write_parquet(buffer, metadata=dict(metadata or {}))
    path.write_bytes(buffer.getbuffer())


def read_parquet(
    path: Path,
    columns: Mapping[str, str],
    advice: str,
    where: pl.Expr | None = None,
    all_columns: bool = False,
) -> pl.DataFrame:
    """Read a table that we or anybody else wrote.

    Args:
        path: the file.
        columns: what must be there: the type of each, one of ``COLUMN_TYPES``; with a question
            mark, as in ``integer?``, it may have nulls.
        advice: what to do if it is not.
        where: which rows to read, ``None`` for all.
        all_columns: whether to read all columns instead of ``columns`` alone.

    Raises:
        DataError: the file is missing or damaged, or the table is another one.
    """
    try:
        check_regular(path)
    except DataError as error:
        raise DataError(path, "file", error.actual, f"a table; {advice}") from None
    try:
        with _silent():
            frame = pl.scan_parquet(path)
            _check_size(path, frame, advice)
            _check_types(path, frame.collect_schema(), columns, advice)
            frame = frame if where is None else frame.filter(where)
            table = (frame if all_columns else frame.select(list(columns))).collect()
    except UNREADABLE as error:
        raise _unreadable(path, error, advice) from None
    for name, kind in columns.items():
        if not kind.endswith("?") and table[name].null_count():
            raise DataError(path, name, "an empty cell", f"{kind}s; {advice}")
    return table


def _check_types(path: Path, schema: pl.Schema, columns: Mapping[str, str], advice: str) -> None:
    for name, kind in columns.items():
        kind = kind.removesuffix("?")
        if name not in schema:
            raise DataError(path, name, "no such column", f"it; {advice}")
        if schema[name] != pl.Null and not COLUMN_TYPES[kind](schema[name]):
            raise DataError(path, name, schema[name], f"{kind}s; {advice}")


def _check_size(path: Path, frame: pl.LazyFrame, advice: str) -> None:
    """Raise a DataError if the table would take far more memory than its file has bytes.

    The footer says how many rows there are. (No more are read than it says.)
    """
    rows, size = frame.select(pl.len()).collect().item(), path.stat().st_size
    taken = rows * len(frame.collect_schema()) * CELL_BYTES
    if taken > max(SMALL, MOST_TIMES * size):
        sizes = f"{rows:,} rows of {taken:,} bytes in a file of {size:,}"
        raise DataError(path, "size", sizes, f"at most {MOST_TIMES} times the file's; {advice}")


def _unreadable(path: Path, error: BaseException, advice: str) -> DataError:
    reason = getattr(error, "strerror", None) or error
    return DataError(path, "file", reason, f"a table; {advice}")


@contextmanager
def _silent() -> Iterator[None]:
    """Nothing is written to standard error: polars says there at length that it panics."""
    sys.stderr.flush()
    stderr = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
