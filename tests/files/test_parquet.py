"""Tables on disk: what was written is read, or one line says what is wrong."""

from __future__ import annotations

import errno
import resource
import signal

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from lib.files.errors import DataError
from lib.files.parquet import read_parquet, write_parquet

COLUMNS = {"name": "text", "count": "integer", "score": "number", "runtime": "integer?"}


def table(rows: int = 500) -> pl.DataFrame:
    scores = np.random.default_rng(0).normal(size=rows)
    return pl.DataFrame(
        {
            "name": [f"checksum {row // 9}" for row in range(rows)],
            "count": np.arange(rows, dtype=np.int32),
            "score": scores,
            "runtime": [None] * rows,
            "more": [[1, 2]] * rows,
        },
        schema_overrides={"runtime": pl.Int64},
    )


@pytest.fixture
def path(tmp_path):
    write_parquet(table(), tmp_path / "table.parquet")
    return tmp_path / "table.parquet"


@pytest.mark.parametrize("rows", [0, 1, 500])
def test_round_trip(path, rows):
    write_parquet(table(rows), path)
    assert_frame_equal(read_parquet(path, COLUMNS, "again"), table(rows).select(list(COLUMNS)))
    assert_frame_equal(read_parquet(path, COLUMNS, "again", all_columns=True), table(rows))
    assert_frame_equal(pl.read_parquet(path), table(rows))  # as any other tool does


def test_some_rows(path):
    wanted = pl.col("name") == "checksum 3"
    found = read_parquet(path, {"count": "integer"}, "again", wanted)
    assert found["count"].to_list() == list(range(27, 36))


def test_the_same_table_gives_the_same_bytes(path, tmp_path):
    write_parquet(table(), tmp_path / "other")
    assert path.read_bytes() == (tmp_path / "other").read_bytes()


def test_damage_is_the_same_table_another_one_or_one_line(path, capfd):
    """Polars panics on some of these files, and says so at length if nobody stops it."""
    content, draw, refused = path.read_bytes(), np.random.default_rng(0), 0
    footer = range(len(content) - 1500, len(content))
    for place in draw.choice(footer, 300).tolist():
        damaged = bytearray(content)
        damaged[place] ^= 1 << draw.integers(8)
        path.write_bytes(damaged)
        try:
            read_parquet(path, COLUMNS, "again")
        except DataError as error:
            refused += 1
            assert str(error).startswith(f"{path}: ") and str(error).endswith("; again")
    assert refused > 100
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("content", [None, b"", b"PAR1", "truncated"])
def test_what_is_no_such_file(path, content):
    if content is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-50] if content == "truncated" else content)
    with pytest.raises(DataError, match=r"table\.parquet: .*; again"):
        read_parquet(path, COLUMNS, "again")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (pl.all().exclude("name"), "name: found no such column"),
        (pl.col("score").cast(pl.String), "score: found String, expected numbers"),
        (pl.col("count").cast(pl.Boolean), "count: found Boolean, expected integers"),
        (pl.lit(None).alias("score"), "score: found an empty cell"),
        (pl.when(pl.col("count") > 3).then("name").alias("name"), "name: found an empty cell"),
    ],
)
def test_another_table(path, change, message):
    frame = table()
    excluded = isinstance(change, pl.Expr) and change.meta.has_multiple_outputs()
    write_parquet(frame.select(change) if excluded else frame.with_columns(change), path)
    with pytest.raises(DataError, match=message):
        read_parquet(path, COLUMNS, "again")


def test_a_small_file_that_unpacks_to_a_large_one_is_not_read(tmp_path, monkeypatch):
    path = tmp_path / "bomb.parquet"
    write_parquet(pl.DataFrame({"x": pl.zeros(2_000_000, dtype=pl.Int8, eager=True)}), path)
    monkeypatch.setattr("lib.files.parquet.SMALL", 1 << 20)
    monkeypatch.setattr("lib.files.parquet._check_types", None)
    told = "2,000,000 rows of 16,000,000 bytes"
    with pytest.raises(DataError, match=rf"bomb\.parquet: size: found {told}.*; again"):
        read_parquet(path, {}, "again")


def test_a_disk_that_is_full_is_one_error_whatever_room_is_left(tmp_path):
    """The operating system refuses each byte beyond a bound: of the rows, and of the footer."""
    wide = pl.DataFrame({f"column {place}": [place] for place in range(100)})
    write_parquet(wide, tmp_path / "whole")
    size = (tmp_path / "whole").stat().st_size
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        for left in [*range(0, size, size // 40), size - 1]:
            resource.setrlimit(resource.RLIMIT_FSIZE, (left, before[1]))
            with pytest.raises(OSError) as raised:
                write_parquet(wide, tmp_path / "part")
            assert raised.value.errno == errno.EFBIG
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
