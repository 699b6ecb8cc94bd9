"""From a dataset of measured tensor programs to cached tasks, and the account of what that saved.

The features are half precision in the source, and stay so: log2(1 + x) below 32 is off by 1/128 at
most, so that no number x is off by more than 0.6 percent. Nothing else is rounded.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lib.files.errors import DataError
from lib.preprocess.stage import Preprocess
from lib.programs.task import CachedTask
from lib.programs.tensorir.accesses import around
from lib.programs.tensorir.records import TABLES, Programs, read_programs, table_path

SPLITS = ("train", "test")  # tasks of `search` are for trying out searches, and nothing else
FASTEST = 0.99  # of a device's programs are slower than its peak
LEAF_BYTES_RAW = 165 * 4  # float32 features and the position of a leaf


def source_files(path: Path) -> list[Path]:
    """Return all files of a dataset.

    Args:
        path: its ``dataset.json``.
    """
    return [path, *(table_path(path.parent, name) for name in sorted(TABLES))]


def metadata_of(path: Path, wanted: Sequence[str] = SPLITS) -> dict[str, Any]:
    """Return entries of a dataset in the manifest: the devices that measured some program of it.

    Args:
        path: its ``dataset.json``.
        wanted: the splits whose programs count.
    """
    data = read_programs(path.parent)
    peaks, devices = peaks_of(data), data.metadata["devices"]
    return {"devices": [{**devices[k], "peak_gops": peaks[k]} for k in measuring(data, wanted)]}


def peaks_of(data: Programs) -> dict[int, float]:
    """Return billions of operations a second of each device's fastest programs, by its number.

    They say to a network how fast an unknown processor is. It is computed from the data, so
    that it is known of processors that are gone; one program in a hundred is faster. What a task
    needs counts: a schedule that computes the same again is not fast for it.
    """
    flops = data.tasks["flops"].gather(data.programs["task"]).gather(data.latencies["program"])
    rows = data.latencies.select("device", gops=flops / 1e9 / pl.col("seconds"))
    found = rows.group_by("device").agg(pl.col("gops").quantile(FASTEST, "linear"))
    return {device: float(f"{gops:.4g}") for device, gops in found.iter_rows()}


def measuring(data: Programs, wanted: Sequence[str]) -> list[int]:
    """Return numbers of the devices on which programs of some splits were measured, ascending."""
    splits = data.tasks["split"].gather(data.programs["task"]).gather(data.latencies["program"])
    return sorted(data.latencies["device"].filter(splits.is_in(wanted)).unique().to_list())


def read_graphs(
    path: Path, split: str, settings: Mapping[str, Any]
) -> Iterator[tuple[CachedTask, dict[str, int]]]:
    """Yield the tasks of a dataset that have measured programs, and what they were before.

    Args:
        path: its ``dataset.json``; the tables are in the same folder.
        split, settings: nothing of them matters here.

    Raises:
        DataError: the dataset says what cannot be, or that it has no program.
    """
    yield from tasks_of(path, SPLITS)


def tasks_of(  # longer: it is one table, read to the end
    path: Path, wanted: Sequence[str]
) -> Iterator[tuple[CachedTask, dict[str, int]]]:
    """Yield the measured tasks of some splits of a dataset; otherwise as :func:`read_graphs`."""
    data = read_programs(path.parent)
    measured = data.latencies["program"].unique()
    rows = data.programs.with_row_index("program").filter(
        pl.col("program").is_in(measured.implode())
    )
    splits = data.tasks["split"].to_list()
    by_task = {task: frame for (task,), frame in rows.partition_by("task", as_dict=True).items()}
    tasks = sorted(task for task in by_task if splits[task] in wanted)
    if not tasks:
        raise DataError(path, "programs", "none that was measured", "at least one")
    called = dict(data.networks.group_by("task").agg("network").iter_rows())
    numbers = {device: k for k, device in enumerate(measuring(data, wanted))}
    number = pl.col("device").replace_strict(numbers, default=None, return_dtype=pl.Int8)
    pairs = data.latencies.sort("program", "device").with_columns(number)
    first = np.searchsorted(pairs["program"].to_numpy(), np.arange(len(data.programs) + 1)).tolist()
    loops = around(data.forest, data.accesses)
    for task in tasks:
        programs = by_task[task]["program"].to_numpy().astype(np.int64)
        part = pl.concat([pairs[first[program] : first[program + 1]] for program in programs])
        leaves = [np.arange(data.starts[one], data.starts[one + 1]) for one in programs]
        original, firsts = merged((data.features, data.position, loops), leaves)
        kept = np.concatenate([leaves[one] for one in firsts])
        row = data.tasks.row(task, named=True)
        made = CachedTask(
            name=f"{row['operators']}.{row['task']}",
            split=row["split"],
            operators=row["operators"],
            networks=tuple(sorted(called.get(task, ()))),
            features=data.features[kept],
            position=data.position[kept],
            loops=loops[kept],
            counts=np.array([len(leaves[one]) for one in firsts]),
            original=original,
            program=programs,
            owner=np.searchsorted(programs, part["program"].to_numpy()),
            device=part["device"].to_numpy(),
            seconds=part["seconds"].to_numpy(),
            again=part["again"].cast(pl.Float32).fill_null(np.nan).to_numpy(),
        )
        nodes, count = int(data.programs["nodes"][programs].sum()), sum(map(len, leaves))
        yield (
            made,
            {
                "nodes": nodes,
                "source_nodes": nodes,
                "source_leaves": count,
                "source_programs": len(programs),
                "source_configurations": len(part),
                "source_bytes": count * LEAF_BYTES_RAW + len(part) * 8,
            },
        )


def merged(
    seen_by_networks: Sequence[np.ndarray], leaves: list[np.ndarray]
) -> tuple[np.ndarray, list[int]]:
    """Find programs that are the same to a network: equal features, places and loops, leaf by leaf.

    Args:
        seen_by_networks: arrays with a row a leaf.
        leaves: rows of each program's leaves.

    Returns:
        ``(original, firsts)``: (p,) the number of each program's distinct program, and the
        first program that is each distinct program.
    """
    seen: dict[bytes, int] = {}
    firsts: list[int] = []
    original = np.empty(len(leaves), np.int64)
    for number, rows in enumerate(leaves):
        key = b"".join(array[rows].tobytes() for array in seen_by_networks)
        if key not in seen:
            seen[key] = len(firsts)
            firsts.append(number)
        original[number] = seen[key]
    return original, firsts


PREPROCESS = Preprocess(read_graphs, source_files, metadata_of)
