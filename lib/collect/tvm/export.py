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
from lib.collect.tvm.merge import Dataset, dataset_of, lacking, merged
from lib.collect.tvm.networks import TEST
from lib.collect.tvm.summary import dataset_json, readme
from lib.files.artifacts import atomic_file, read_json, write_json
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.files.parquet import write_parquet
from lib.programs.tensorir.features import FEATURES
from lib.programs.tensorir.records import (
    ACCESSES,
    read_programs,
    table_of_accesses,
    table_path,
)
from lib.programs.tensorir.tree import COLUMNS

SORTED = {"latencies": ["program", "device"], "unscheduled": ["task", "device"]}


def tables_of(work: Path) -> tuple[dict[str, pl.DataFrame], Gathered]:
    """All tables of the dataset.

    Raises:
        UserError: nothing is measured yet.
    """
    about, calls = plan.tasks_of(work), plan.networks_of(work)
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
    small, real = pl.Int16, pl.Float32
    program = {"task": small, "schedule": pl.String, "round": small, "leaves": small}
    latency = {"program": pl.Int32, "device": pl.Int8, "seconds": real, "again": real}
    plain = {"task": small, "device": pl.Int8, "seconds": real}
    return {
        "tasks": _tasks(names, about, calls, set(_searched(work))),
        "networks": _frame(
            [
                (network, network.split(".")[0], numbers[task], count)
                for network, row in sorted(calls.items())
                for task, count in sorted(row.items())
            ],
            {"network": pl.String, "family": pl.String, "task": small, "calls": pl.Int32},
        ),
        "programs": _frame(gathered.programs, program | {"nodes": small}),
        "nodes": pl.DataFrame(nodes),
        "leaves": pl.DataFrame({**leaves, "position": position}),
        ACCESSES: table_of_accesses(np.concatenate(gathered.accesses)),
        "latencies": _frame(gathered.latencies, latency | {"flags": pl.Int8}),
        "unscheduled": _frame(gathered.unscheduled, plain),
    }, gathered


def _frame(rows: list[tuple], schema: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=schema, orient="row")


def _searched(work: Path) -> list[str]:
    path = work / plan.PLAN
    return read_json(path)["search"] if path.exists() else []


def _tasks(
    names: list[str],
    about: dict[str, dict[str, Any]],
    calls: dict[str, dict[str, int]],
    search: set[str],
) -> pl.DataFrame:
    """A row a task: ``test`` if any network of the test calls it."""
    test = {task for name in TEST for task in calls.get(name, ())}

    def split(task: str) -> str:
        return "test" if task in test else "search" if task in search else "train"

    return pl.DataFrame(
        [
            {
                "task": task,
                "operators": about[task]["operators"],
                "arguments": json.dumps(about[task]["arguments"]),
                "split": split(task),
                "flops": float(about[task]["flops"]),
                "distinct": int(about[task]["distinct"]),
                "sampled": int(about[task]["sampled"]),
            }
            for task in names
        ]
    )


def export(work: Path, root: Path, add: bool = False) -> dict[str, pl.DataFrame]:
    """Write the dataset in ``root``; each of its files is whole or the one before.

    Args:
        work: the work folder.
        root: the dataset's folder.
        add: keep what ``root`` has already, and add to it.

    Raises:
        DataError: a raw file, or the dataset that is there, cannot be believed.
        UserError: nothing is measured, or ``root`` has what the work folder lacks.
    """
    tables, gathered = tables_of(work)
    dataset, before = Dataset(tables, list(gathered.devices.values())), None
    if (root / "dataset.json").exists():
        before = read_programs(root)
        old = dataset_of(before)
        if add:
            dataset = merged(old, dataset)
        elif missing := lacking(old, dataset):
            raise UserError(
                f"{root} has {missing} programs that {work} lacks: --add keeps them, another "
                "folder leaves them alone"
            )
    about = dataset_json(dataset, gathered, before.about if add and before else {})
    with ExitStack() as stack:
        for name, table in dataset.tables.items():
            table = table.sort(SORTED[name]) if name in SORTED else table
            write_parquet(table.rechunk(), stack.enter_context(atomic_file(table_path(root, name))))
        text = readme(dataset.tables, about)
        stack.enter_context(atomic_file(root / "README.md")).write_text(text)
    write_json(root / "dataset.json", about)
    return dataset.tables


def main() -> None:
    """Export, and say in one line what was written."""
    parser = Parser(prog="python -m lib.collect.tvm.export", description=__doc__)
    parser.add_argument("work", type=Path, help="the work folder, as outputs/collect-programs")
    parser.add_argument("root", type=Path, help="the dataset to write, such as data/programs-cpu")
    parser.add_argument("--add", action="store_true", help="keep what the dataset has, and add")
    args = parser.parse_args()
    tables = export(args.work, args.root, args.add)
    size = sum(path.stat().st_size for path in args.root.iterdir() if path.is_file())
    print(
        f"export: {len(tables['programs']):,} programs of "
        f"{tables['programs']['task'].n_unique():,} tasks, {len(tables['latencies']):,} latencies "
        f"in {args.root}/, {size / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    with one_line_errors():
        main()
