"""Adding newly measured programs to a dataset that is there.

A program is its task and its schedule's hash. A program of both datasets is kept once: another
processor or more threads are new latencies of it, and the same device timed again is its second
process.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from lib.programs.tensorir.features import FEATURES
from lib.programs.tensorir.records import ACCESSES, DISAGREE, Programs, table_of_accesses
from lib.programs.tensorir.tree import COLUMNS

DISAGREEMENT = 0.1  # of two processes, above which a latency is flagged
KEY = ["task", "schedule"]
# Table -> the column that counts its rows.
RAGGED = {"nodes": "nodes", "leaves": "leaves", ACCESSES: "leaves"}


@dataclass(frozen=True)
class Dataset:
    """The tables of :mod:`lib.programs.tensorir.records`, and what each device is."""

    tables: dict[str, pl.DataFrame]
    devices: list[dict[str, Any]]

    def programs(self) -> pl.DataFrame:
        """Return programs by the hashes of their tasks, with their row numbers."""
        hashes = self.tables["tasks"]["task"].gather(self.tables["programs"]["task"])
        return self.tables["programs"].with_columns(task=hashes).with_row_index("row")

    def named(self, table: str) -> pl.DataFrame:
        """Return a table by the names of tasks and devices instead of their numbers."""
        frame = self.tables[table]
        if "device" in frame:
            names = pl.Series([d["name"] for d in self.devices], dtype=pl.String)
            frame = frame.with_columns(device=names.gather(frame["device"]))
        if "task" in frame:
            frame = frame.with_columns(task=self.tables["tasks"]["task"].gather(frame["task"]))
        return frame


def dataset_of(data: Programs) -> Dataset:
    """Return a dataset that was read."""
    nodes = pl.DataFrame({name: getattr(data.forest, name) for name in COLUMNS})
    leaves = pl.DataFrame({name: data.features[:, k] for k, name in enumerate(FEATURES)})
    position = pl.Series("position", data.position.astype(np.int16))
    small = ("tasks", "networks", "programs", "latencies", "unscheduled")
    unchanged = {name: getattr(data, name) for name in small}
    tables = {**unchanged, "nodes": nodes, "leaves": leaves.with_columns(position)}
    tables[ACCESSES] = table_of_accesses(data.accesses)
    return Dataset(tables, data.metadata["devices"])


def lacking(old: Dataset, new: Dataset) -> int:
    """Return the number of programs of the old dataset that the new one lacks."""
    return len(old.programs().join(new.programs(), on=KEY, how="anti"))


def merged(old: Dataset, new: Dataset) -> Dataset:
    """Return a dataset with the programs, tasks and latencies of both."""
    names = {d["name"] for d in old.devices}
    devices = old.devices + [d for d in new.devices if d["name"] not in names]
    both = pl.concat([old.tables["tasks"], new.tables["tasks"]])
    tested = both.filter(pl.col("split") == "test")["task"].unique()  # by either
    split = pl.when(pl.col("task").is_in(tested.implode())).then(pl.lit("test"))
    tasks = both.unique("task", keep="first").sort("task")
    tasks = tasks.with_columns(split=split.otherwise("split"))
    task_number = {task: k for k, task in enumerate(tasks["task"])}
    device_number = {d["name"]: k for k, d in enumerate(devices)}
    added = new.programs().join(old.programs(), on=KEY, how="anti")
    sources = [old.programs().with_columns(new=False), added.with_columns(new=True)]
    programs = pl.concat(sources).sort("task", "new", "row").with_row_index("program")

    def numbered(frame: pl.DataFrame) -> pl.DataFrame:
        """Return names of tasks and devices as their numbers."""
        small = {"task": (task_number, pl.Int16), "device": (device_number, pl.Int8)}
        return frame.with_columns(
            pl.col(name).replace_strict(numbers, return_dtype=dtype)
            for name, (numbers, dtype) in small.items()
            if name in frame
        )

    plain = pl.concat([old.named("unscheduled"), new.named("unscheduled")])
    called = pl.concat([new.named("networks"), old.named("networks")])  # the newer's counts stay
    called = called.unique(["network", "task"], keep="first").sort("network", "task")
    tables = {
        "tasks": tasks,
        "networks": numbered(called),
        "programs": numbered(programs.drop("program", "new", "row")),
        "latencies": numbered(_latencies(old, new, programs)),
        "unscheduled": numbered(
            plain.unique(["task", "device"], keep="first", maintain_order=True)
        ),
        **{table: _ragged(table, old, new, programs) for table in RAGGED},
    }
    return Dataset(tables, devices)


def _latencies(old: Dataset, new: Dataset, programs: pl.DataFrame) -> pl.DataFrame:
    """Return a row a program and device; two different readings are those of two processes."""
    sides = []
    for dataset in (old, new):
        place = dataset.programs().join(programs.select("program", *KEY), on=KEY)
        place = place.select(pl.col("row").cast(pl.Int32), pl.col("program").cast(pl.Int32))
        latencies = dataset.named("latencies").rename({"program": "row"}).join(place, on="row")
        sides.append(latencies.drop("row"))
    joined = sides[0].join(sides[1], on=["program", "device"], how="full", coalesce=True)
    other = pl.when(pl.col("seconds_right") != pl.col("seconds")).then("seconds_right")
    first = pl.coalesce("seconds", "seconds_right")
    second = pl.coalesce("again", other, "again_right")
    apart = ((second / first).log().abs() > np.log1p(DISAGREEMENT)).fill_null(False)
    flags = pl.coalesce("flags", "flags_right") & ~np.int8(DISAGREE)
    marked = flags | pl.when(apart).then(pl.lit(DISAGREE, pl.Int8)).otherwise(pl.lit(0, pl.Int8))
    labels = joined.select("program", "device", seconds=first, again=second, flags=marked)
    return labels.sort("program", "device")


def _ragged(table: str, old: Dataset, new: Dataset, programs: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the programs, one after the other."""
    counts = programs[RAGGED[table]].to_numpy().astype(np.int64)
    first = np.zeros(len(programs), np.int64)
    shift = 0
    for dataset, newer in ((old, False), (new, True)):
        lengths = dataset.tables["programs"][RAGGED[table]].to_numpy().astype(np.int64)
        here = programs["new"].to_numpy() == newer
        first[here] = shift + (np.cumsum(lengths) - lengths)[programs["row"].to_numpy()[here]]
        shift += len(dataset.tables[table])
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    return pl.concat([old.tables[table], new.tables[table]])[np.repeat(first, counts) + within]
