"""Reading a dataset of tensor programs: whatever is wrong with it is told in one line."""

from __future__ import annotations

import json
import shutil

import numpy as np
import polars as pl
import pytest

from lib.collect.tvm.export import export
from lib.files.errors import DataError
from lib.files.parquet import write_parquet
from lib.programs.tensorir.features import WIDTH
from lib.programs.tensorir.records import (
    KEYS,
    TABLES,
    read_programs,
    table_path,
)
from tests.collect.tvm.builders import write_work
from tests.stages import REPOSITORY

HELD = ("tasks", "networks", "programs", "latencies")


@pytest.fixture(scope="module")
def good(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    write_work(folder / "work", tasks=5, rounds=1)
    export(folder / "work", folder / "root")
    return folder / "root"


@pytest.fixture
def root(good, tmp_path):
    shutil.copytree(good, tmp_path / "root")
    return tmp_path / "root"


def change(root, table: str, **columns) -> None:
    """Give a table other columns."""
    frame = pl.read_parquet(table_path(root, table))
    write_parquet(frame.with_columns(**columns), table_path(root, table))


def told(root, *words: str) -> None:
    with pytest.raises(DataError) as error:
        read_programs(root)
    assert "\n" not in str(error.value)
    for word in words:
        assert word in str(error.value)


def first(value, column: str) -> pl.Expr:
    """A column with another value in its first row."""
    return pl.when(pl.int_range(pl.len()) == 0).then(pl.lit(value)).otherwise(pl.col(column))


def test_a_good_dataset_is_read(good):
    data = read_programs(good)
    assert data.features.shape == (data.starts[-1], WIDTH) and data.features.dtype == np.float16
    assert len(data.forest) == len(data.programs) == len(data.starts) - 1


def test_the_bundled_dataset_is_read():
    data = read_programs(REPOSITORY / "data" / "programs-cpu")
    counts = data.metadata["counts"]
    assert counts | {name: len(getattr(data, name)) for name in HELD} == counts


BROKEN = {  # numbers that point at other tables, and what is not in BORDERS
    ("networks", "task"): 99,
    ("programs", "task"): -1,
    ("latencies", "device"): 3,
    ("tasks", "split"): "valid",
    ("leaves", "position"): 77,
}


@pytest.mark.parametrize("place", BROKEN, ids=".".join)
def test_a_value_that_cannot_be_names_its_table(root, place):
    table, column = place
    change(root, table, **{column: first(BROKEN[place], column)})
    told(root, f"{table}.parquet")


BORDERS = {
    "seconds": [1e300, 1e39, 3e38, 1e5, 1e-12, 1e-45, 1e-60, -0.0, float("-inf")],
    "again": [3e38, 1e39, 1e-60, float("nan")],
    "loops": [65504.0, 70000.0, 64.5, 1e300, float("inf"), -1.0],
    "flops": [float("nan"), -1.0, float("inf"), 1e300],
    "depth": [65, 2**16, 2**62],  # 65536 and 256 are 0 to who cuts them
    "kind": [256, -(2**63)],
    "unroll": [2**16, -1],
    "position": [2**62],
    "program": [-1, 2**62, 2**63, 2**64 - 1],
    "operators": ["x" * 201, "", "a b", "a\n", "\u202e"],
}


@pytest.mark.parametrize("column", BORDERS)
def test_values_at_the_borders_of_types_name_table_column_and_row(root, column):
    table = next(name for name, columns in TABLES.items() if column in columns)
    before = pl.read_parquet(table_path(root, table))
    for value in BORDERS[column]:
        kind = pl.Series([value]).dtype
        wide = before.with_columns(pl.col(column).cast(kind, strict=False))
        write_parquet(
            wide.with_columns(first(value, column).alias(column)), table_path(root, table)
        )
        told(root, f"{table}.parquet: {column}: found {value!r}"[:60], "in row 0, expected ")


@pytest.mark.parametrize("table", KEYS)
def test_rows_that_stand_twice_are_told(root, table):
    path = table_path(root, table)
    frame = pl.read_parquet(path)
    write_parquet(pl.concat([frame, frame[:1]]), path)
    told(root, f"{table}.parquet: {', '.join(KEYS[table])}: found", f"in row {len(frame)}", "once")


DEVICE = {"name": "a", "instructions": "sse2", "processor": "CPU", "threads": 1}
DEVICES = {
    "devices[0].name": [DEVICE | {"name": None}],
    "devices[1].name": [DEVICE, DEVICE],
    "devices[0].instructions": [DEVICE | {"instructions": "mmx"}],
    "devices[0].machine: ": [DEVICE | {"machine": {"l2_kib": -1}}],
    "devices: found 128": [DEVICE | {"name": str(number)} for number in range(128)],
}


@pytest.mark.parametrize("field", DEVICES)
def test_devices_of_another_kind_are_told(root, field):
    path = root / "dataset.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"devices": DEVICES[field]}))
    told(root, f"dataset.json: {field}")


@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_is_missing_or_cut_is_told(root, table):
    path = table_path(root, table)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    told(root, path.name)
    path.unlink()
    told(root, path.name)


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"kind": "layouts"}', '{"kind": "programs", "devices": []}', "\xff"]
)
def test_another_dataset_json_is_told(root, text):
    (root / "dataset.json").write_text(text, encoding="latin-1")
    told(root, "dataset.json")


@pytest.mark.parametrize("change", [lambda t: t[:-1], lambda t: t.with_columns(steps=99.0)])
def test_access_patterns_that_cannot_be_are_told(root, change):
    path = table_path(root, "accesses")
    write_parquet(change(pl.read_parquet(path)), path)
    with pytest.raises(DataError, match=r"accesses\.parquet: (rows|steps)"):
        read_programs(root)
