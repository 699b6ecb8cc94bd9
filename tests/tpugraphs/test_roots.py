"""The tables beside the raw files: measurements are believed only if they can be ones."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal

from lib.files.errors import DataError
from lib.settings.resolved import BUNDLED
from lib.tpugraphs.roots import DataRoot
from tests.builders import COLLECTION


def measured() -> pl.DataFrame:
    """Two graphs of three configurations, those of the second in another order."""
    rows = [("a", c, 10 + c, [10 + c, 20 + c]) for c in range(3)]
    rows += [("b", c, 50 - c, [50 - c, 60 - c]) for c in (2, 0, 1)]
    frame = pl.DataFrame(rows, ["graph", "config", "runtime", "rounds"], orient="row")
    about = {"collection": pl.lit(COLLECTION), "split": pl.lit("test")}
    return frame.with_columns(**about, optimized_hash=pl.lit("x"))


def with_cell(column: str, value: object, row: int = 4) -> pl.DataFrame:
    """The measurements with one value in place of another."""
    values = measured()[column].to_list()
    values[row] = value
    return measured().with_columns(pl.Series(column, values, measured()[column].dtype))


def cast(column: str, dtype: pl.DataType) -> pl.DataFrame:
    return measured().with_columns(pl.col(column).cast(dtype))


def test_what_is_there_is_read(tmp_path):
    root = DataRoot(tmp_path, tmp_path)
    assert root.measurements(COLLECTION) is None
    other = measured().with_columns(collection=pl.lit("layout-nlp-random"), runtime=pl.lit(7))
    both = pl.concat([other, measured()], how="vertical_relaxed")
    both.write_parquet(tmp_path / "measurements.parquet")  # by any tool
    columns = ["split", "graph", "config", "runtime", "rounds"]
    expected = measured().sort("graph", "config").select(columns)
    assert_frame_equal(root.measurements(COLLECTION), expected)
    assert len(root.measurements("tile-xla")) == 0


BAD = {  # name: (table, column that is named, what is found there)
    "runtime: null": (with_cell("runtime", None), "runtime", "an empty cell"),
    "runtime: zero": (with_cell("runtime", 0), "runtime of b", "0"),
    "runtime: text": (cast("runtime", pl.String), "runtime", "String"),
    "runtime: nan": (
        cast("runtime", pl.Float64).with_columns(runtime=pl.lit(np.nan)),
        "runtime of a",
        "nan",
    ),
    "runtime: too large": (
        cast("runtime", pl.UInt64).with_columns(runtime=pl.lit(2**64 - 1, pl.UInt64)),
        "runtime of a",
        "18446744073709551615",
    ),
    "rounds: a null": (with_cell("rounds", [7, None]), "rounds of b", "[7, None]"),
    "rounds: a zero": (with_cell("rounds", [7, 0]), "rounds of b", "[7, 0]"),
    "rounds: fractions": (cast("rounds", pl.List(pl.Float64)), "rounds", "List(Float64)"),
    "config: twice": (with_cell("config", 1), "config of b", "1"),
    "config: one is missing": (measured().head(2).tail(1), "config of a", "1"),
    "split: null": (with_cell("split", None), "split", "an empty cell"),
    "no rows, no columns": (pl.DataFrame(), "collection", "no such column"),
}


@pytest.mark.parametrize("case", BAD)
def test_measurements_that_cannot_be(tmp_path, case):
    table, field, found = BAD[case]
    path = tmp_path / "measurements.parquet"
    table.write_parquet(path)
    with pytest.raises(DataError) as caught:
        DataRoot(tmp_path, tmp_path).measurements(COLLECTION)
    assert str(caught.value).startswith(f"{path}: {field}: found {found}")
    assert "make collect writes it" in str(caught.value)


def test_the_bundled_tables_are_good():
    root = DataRoot(Path(BUNDLED), BUNDLED, True)
    for name in ("layout-xla-random", "layout-nlp-default"):
        assert len(root.measurements(name)) > 2000
