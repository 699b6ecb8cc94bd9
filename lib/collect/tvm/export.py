"""From raw files to a dataset: ``python -m lib.collect.tvm.export WORK ROOT``.

Needs no TVM. What it writes is a pure function of the work folder: the same files, the same bytes.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lib.collect.tvm import plan
from lib.collect.tvm.gather import Gathered, gather
from lib.files.artifacts import atomic_file, write_json
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.files.parquet import write_parquet
from lib.programs.tensorir.accesses import COLUMNS as ACCESSES
from lib.programs.tensorir.features import FEATURES
from lib.programs.tensorir.records import KIND, LONGEST_NAME, read_programs, table_path
from lib.programs.tensorir.tree import COLUMNS

LABELS = (
    "seconds of a run: the fastest of 3 to 10 readings that are seconds apart, each the mean of "
    "the runs in at least 0.4 ms"
)


def tables_of(work: Path) -> tuple[dict[str, pl.DataFrame], Gathered]:
    """Return all tables of the dataset, and what they were gathered from.

    Raises:
        UserError: nothing is measured yet.
    """
    tasks, calls = plan.tasks_of(work), plan.networks_of(work)
    names = sorted({task for row in calls.values() for task in row})
    numbers = {task: k for k, task in enumerate(names)}
    gathered = gather(work, numbers)
    if not gathered.programs:
        raise UserError(f"{work}: nothing is measured; `make collect KIND=programs` does it")
    columns = np.concatenate(gathered.nodes)
    nodes = {n: columns[:, k].astype(t) for k, (n, t) in enumerate(COLUMNS.items())}
    features = np.concatenate(gathered.leaves)
    leaves = {name: features[:, k] for k, name in enumerate(FEATURES)}
    position = np.concatenate(gathered.position).astype(np.int16)
    called = [
        (network, network.split(".")[0], numbers[task], count)
        for network, row in sorted(calls.items())
        for task, count in sorted(row.items())
    ]
    small, real, text = pl.Int16, pl.Float32, pl.String
    program = {"task": small, "schedule": text, "round": small, "leaves": small, "nodes": small}
    latency = {"program": pl.Int32, "device": pl.Int8, "seconds": real, "again": real}
    return {
        "tasks": pl.DataFrame([_task(tasks[name]) for name in names]),
        "networks": _frame(
            called, {"network": text, "family": text, "task": small, "calls": pl.Int32}
        ),
        "programs": _frame(gathered.programs, program),
        "nodes": pl.DataFrame(nodes),
        "leaves": pl.DataFrame({**leaves, "position": position}),
        "accesses": pl.DataFrame(np.concatenate(gathered.accesses), schema=ACCESSES, orient="row"),
        "latencies": _frame(gathered.latencies, latency).sort("program", "device"),
    }, gathered


def _frame(rows: list[tuple], schema: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema, orient="row")


def _task(metadata: dict[str, Any]) -> dict[str, Any]:
    """Return a row of ``tasks``."""
    return {
        "task": metadata["task"],
        "operators": metadata["operators"][:LONGEST_NAME],
        "arguments": json.dumps(metadata["arguments"]),
        "split": metadata.get("split", "train"),  # what the bundled data say, if it is of these
        "flops": float(metadata["flops"]),
    }


def dataset_json(tables: dict[str, pl.DataFrame], gathered: Gathered) -> dict[str, Any]:
    """Return ``dataset.json``: hardware, compiler, labels, source, licence, devices and counts."""
    devices = list(gathered.devices.values())
    splits = tables["tasks"]["split"].gather(tables["networks"]["task"])
    calls = tables["networks"].with_columns(test=splits == "test")
    tested = calls.group_by("network").agg(pl.col("test").all())
    return {
        "kind": KIND,
        "hardware": sorted({device["processor"] for device in devices}),
        "compiler": "Apache TVM 0.27, MetaSchedule, LLVM at level 2",
        "labels": LABELS,
        "source": "measured by make collect KIND=programs",
        "licence": "Apache-2.0",
        "devices": devices,
        "test_networks": sorted(tested.filter("test")["network"]),
        "measured": [min(gathered.dates), max(gathered.dates)],
        "dropped": dict(sorted(gathered.dropped.items())),
        "counts": {name: len(table) for name, table in tables.items()},
    }


def export(work: Path, root: Path) -> dict[str, pl.DataFrame]:
    """Write the dataset in ``root``; each of its files is whole or the one before.

    Args:
        work: the work folder.
        root: the dataset's folder.

    Raises:
        DataError: a raw file, or the dataset that is there, cannot be believed.
        UserError: nothing is measured, or ``root`` has what the work folder lacks.
    """
    tables, gathered = tables_of(work)
    if (root / "dataset.json").exists():
        before = read_programs(root)
        old = _schedules(before.tasks, before.programs)
        if missing := len(old - _schedules(tables["tasks"], tables["programs"])):
            advice = "another DATA= leaves them alone"
            raise UserError(f"{root} has {missing} programs that {work} lacks; {advice}")
    with ExitStack() as stack:
        for name, table in tables.items():
            write_parquet(table.rechunk(), stack.enter_context(atomic_file(table_path(root, name))))
    write_json(root / "dataset.json", dataset_json(tables, gathered))
    return tables


def _schedules(tasks: pl.DataFrame, programs: pl.DataFrame) -> set[tuple[str, str]]:
    """Return the hashes of the task and of the schedule of each program."""
    return set(zip(tasks["task"].gather(programs["task"]), programs["schedule"], strict=True))


def main() -> None:
    """Export, and say in one line what was written."""
    parser = Parser(prog="python -m lib.collect.tvm.export", description=__doc__)
    parser.add_argument("work", type=Path, help="the work folder, as outputs/collect-programs")
    parser.add_argument("root", type=Path, help="the dataset to write, such as data/programs-cpu")
    args = parser.parse_args()
    tables = export(args.work, args.root)
    size = sum(path.stat().st_size for path in args.root.iterdir() if path.is_file())
    print(
        f"export: {len(tables['programs']):,} programs of "
        f"{tables['programs']['task'].n_unique():,} tasks, {len(tables['latencies']):,} latencies "
        f"in {args.root}/, {size / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    with one_line_errors():
        main()
