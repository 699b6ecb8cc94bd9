"""Tables on disk: parquet files that hold a checksum of themselves.

The checksum is an entry of the file's own metadata, so that any tool reads the table, and it is
checked before anything else is believed: readers of damaged parquet may give other numbers, or
crash. Its digits stand for the file's other bytes. (The format's own checksums are of its pages: of
2,280 flips of a bit in a footer, 77 gave another table. A file beside the table may be another's.)
What a table takes in memory is checked next: a small file may unpack to a large one.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import polars as pl

from lib.files.checksum import Checksum, checksum_of
from lib.files.errors import DataError
from lib.files.regular import check_regular, open_regular

KEY, BLANK, DIGITS = "checksum", "crc32:", 8
# The key and what stands before the digits, as a footer has them (Thrift's compact protocol: a
# field of type string, its length, its bytes).
MARK = KEY.encode() + bytes([0x18, len(BLANK) + DIGITS]) + BLANK.encode()
TAIL = 1 << 16  # bytes at the end of a file that the mark is among
# What a table may take in memory. The bundled tables take 42 times their files' bytes at most, and
# equal scores of a fold 19 times; so many equal rows that they fill memory take thousands.
SMALL, MOST_TIMES = 64 << 20, 100
CELL_BYTES = 8
COLUMN_TYPES = {
    "text": lambda dtype: dtype == pl.String,
    "flag": lambda dtype: dtype == pl.Boolean,
    "integer": lambda dtype: dtype.is_integer(),
    "number": lambda dtype: dtype.is_numeric(),
    "list of integer": lambda dtype: isinstance(dtype, pl.List) and dtype.inner.is_integer(),
}


def write_parquet(frame: pl.DataFrame, path: Path, about: Mapping[str, str] | None = None) -> None:
    """Write a table and its checksum; the same table gives the same bytes.

    Args:
        frame, path: the table, and where to.
        about: words for the file's metadata.

    Raises:
        OSError: it cannot be written.
    """
    buffer = io.BytesIO()  # what polars writes to a full disk itself ends in errors of many kinds
    frame.write_parquet(buffer, metadata={**(about or {}), KEY: BLANK + "0" * DIGITS})
    content, checksum = buffer.getbuffer(), Checksum()
    tail = max(0, len(content) - TAIL)
    place = tail + bytes(content[tail:]).rfind(MARK) + len(MARK)
    for part in (content[:place], content[place + DIGITS :]):
        checksum.update(part)
    content[place : place + DIGITS] = checksum.digits.encode()
    path.write_bytes(content)


def read_parquet(
    path: Path,
    columns: Mapping[str, str],
    advice: str,
    where: pl.Expr | None = None,
    all_columns: bool = False,
) -> pl.DataFrame:
    """Read a table that :func:`write_parquet` wrote.

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
        _check(path, advice)
    except OSError as error:
        raise _unreadable(path, error, advice) from None
    return _read(path, columns, advice, where, all_columns)


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
        return _read(path, columns, advice, where, all_columns=False)


def _read(
    path: Path, columns: Mapping[str, str], advice: str, where: pl.Expr | None, all_columns: bool
) -> pl.DataFrame:
    _check_size(path, advice)
    try:
        frame = pl.scan_parquet(path)
        schema = frame.collect_schema()
        for name, kind in columns.items():
            if name not in schema:
                raise DataError(path, name, "no such column", f"it; {advice}")
            if schema[name] != pl.Null and not COLUMN_TYPES[kind.removesuffix("?")](schema[name]):
                raise DataError(path, name, schema[name], f"{kind.removesuffix('?')}s; {advice}")
        frame = frame if where is None else frame.filter(where)
        table = (frame if all_columns else frame.select(list(columns))).collect()
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise _unreadable(path, error, advice) from None
    for name, kind in columns.items():
        if not kind.endswith("?") and table[name].null_count():
            raise DataError(path, name, "an empty cell", f"{kind}s; {advice}")
    return table


def _check_size(path: Path, advice: str) -> None:
    """Raise a DataError if the table would take far more memory than its file has bytes.

    The footer tells how many values and bytes there are. (No more rows are read than it tells.)
    """
    import pyarrow.parquet  # late: it takes a tenth of a second, and some commands read no table

    try:
        about, size = pyarrow.parquet.read_metadata(path), path.stat().st_size
        taken = 0
        for group in map(about.row_group, range(about.num_row_groups)):
            for chunk in map(group.column, range(about.num_columns)):
                values = max(chunk.num_values, group.num_rows)
                taken += max(values * CELL_BYTES, chunk.total_uncompressed_size)
    except (OSError, ValueError, pyarrow.ArrowException) as error:  # damaged names are ValueErrors
        raise _unreadable(path, error, advice) from None
    if taken > max(SMALL, MOST_TIMES * size):
        sizes = f"{about.num_rows:,} rows of {taken:,} bytes in a file of {size:,}"
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


def _check(path: Path, advice: str) -> None:
    place = _digits(path)
    if place is None:
        raise DataError(path, KEY, "none", f"one, as every table has that is whole; {advice}")
    with open_regular(path) as file:
        file.seek(place)
        noted = file.read(DIGITS).decode("latin-1")
    actual = checksum_of(path, (place, place + DIGITS))
    if actual != noted:
        raise DataError(path, KEY, f"{actual} (damaged)", f"{noted}; {advice}")


def _digits(path: Path) -> int | None:
    """Where the digits of a table's checksum begin."""
    with open_regular(path) as file:
        start = max(0, file.seek(0, os.SEEK_END) - TAIL)
        file.seek(start)
        place = file.read().rfind(MARK)
    return None if place < 0 else start + place + len(MARK)
