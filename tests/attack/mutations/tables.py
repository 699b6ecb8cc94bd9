"""Damage to parquet files, whose encoding stays right."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

import polars as pl

from tests.attack.mutations.values import NUMBERS, TEXTS, Unsuitable, content, shown

BORDERS = (2**15, 2**16, 2**31, 2**32 + 1, 2**62, 2**63, -(2**63))
BORDERS += (65504.0, 70000.0, 1e39, 1e300, 1e-45, 1e-60, -0.0)
BOMB_ROWS = 3_000_000
TYPES = (pl.String, pl.Int8, pl.Int32, pl.Float32, pl.Float64, pl.Boolean, pl.Binary, pl.Date)


def change_value(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Another value in some rows of a column, of its type if it can be."""
    frame = _read(path)
    column = rng.choice(frame.columns)
    value = rng.choice((None, rng.choice(NUMBERS), rng.choice(TEXTS[:-4])))
    rows = rng.choice((1, 1, len(frame)))
    start = rng.randrange(len(frame))
    there = (pl.int_range(pl.len()) >= start) & (pl.int_range(pl.len()) < start + rows)
    new = pl.lit(value).cast(frame.schema[column], strict=False)
    frame = frame.with_columns(pl.when(there).then(new).otherwise(pl.col(column)).alias(column))
    return _write(path, frame, f"{column} of {rows} rows from {start} is {shown(value)}")


def change_type(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A column of another type, with nulls where the values do not go."""
    frame = _read(path)
    column, kind = rng.choice(frame.columns), rng.choice(TYPES)
    new = rng.choice((pl.col(column).cast(kind, strict=False), pl.lit(None, kind).alias(column)))
    return _write(path, frame.with_columns(new), f"{column} is {kind}")


def nest(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A column of lists, of structs, or of the elements of lists."""
    frame = _read(path)
    column = rng.choice(frame.columns)
    if frame.schema[column].is_nested():
        frame = frame.with_columns(pl.col(column).list.first())
        return _write(path, frame, f"{column} is its first element")
    new = rng.choice((pl.concat_list(column), pl.struct(column), pl.lit([]).alias(column)))
    return _write(path, frame.with_columns(new.alias(column)), f"{column} is nested")


def drop_column(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A column less, or all."""
    frame = _read(path)
    columns = rng.choice((frame.columns, [rng.choice(frame.columns)], [rng.choice(frame.columns)]))
    return _write(path, frame.drop(columns), f"no {', '.join(columns)}")


def rename_column(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A column of another name, or two with each other's."""
    frame = _read(path)
    one, other = rng.choice(frame.columns), rng.choice(frame.columns)
    names = {one: other, other: one} if one != other else {one: rng.choice(TEXTS[:-5])}
    return _write(path, frame.rename(names), f"{one} is called {shown(names[one])}")


def change_rows(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """No rows, fewer, twice as many, or in another order."""
    frame = _read(path)
    start = rng.randrange(len(frame))
    edits = {
        "none": frame.clear(),
        "one": frame[start : start + 1],
        "fewer": pl.concat([frame[:start], frame[start + 1 :]]),
        "all twice": pl.concat([frame, frame]),
        "one twice": pl.concat([frame, frame[start : start + 1]]),
        "upside down": frame.reverse(),
    }
    what = rng.choice(list(edits))
    return _write(path, edits[what], f"rows: {what}")


def widen(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A number at the border of a type, in a column of a wider one."""
    frame = _read(path)
    numbers = [name for name, kind in frame.schema.items() if kind.is_numeric()]
    if not numbers:
        raise Unsuitable
    column, value, row = rng.choice(numbers), rng.choice(BORDERS), rng.randrange(len(frame))
    kind = pl.Series([value]).dtype
    new = pl.when(pl.int_range(pl.len()) == row).then(pl.lit(value, kind))
    frame = frame.with_columns(new.otherwise(pl.col(column).cast(kind, strict=False)).alias(column))
    return _write(path, frame, f"{column} of row {row} is {value!r}, a {kind}")


def bomb(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """One row millions of times: a small file, a large table."""
    frame = _read(path)
    row = rng.randrange(len(frame))
    many = frame[row : row + 1].select(pl.all().gather(pl.zeros(BOMB_ROWS, pl.Int8, eager=True)))
    return _write(path, many, f"row {row} {BOMB_ROWS:,} times")


MUTATIONS = (
    widen,
    widen,
    bomb,
    change_value,
    change_value,
    change_value,
    change_type,
    change_type,
    nest,
)
MUTATIONS += (drop_column, rename_column, change_rows, change_rows)


def _read(path: Path) -> pl.DataFrame:
    content(path)
    try:
        frame = pl.read_parquet(path)
    except pl.exceptions.PolarsError:
        raise Unsuitable from None
    if frame.is_empty():
        raise Unsuitable
    return frame


def _write(path: Path, frame: pl.DataFrame, what: str) -> str:
    frame.write_parquet(path)
    return what
