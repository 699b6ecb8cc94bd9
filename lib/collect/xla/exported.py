"""A dataset that was exported before, as the measurements that it was made from.

With it an export adds programs to a dataset whose raw files are on another machine, or gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lib.collect.xla.enough import UNTOLD
from lib.collect.xla.hlo import Measurements
from lib.collect.xla.operations import COLUMN
from lib.files.errors import DataError
from lib.files.parquet import read_parquet
from lib.tpugraphs.encoding import EncodedGraph
from lib.tpugraphs.npz import read_layout

GRAPHS = Path("npz", "layout")  # in a dataset
HOW = ("measured_at", "processor", "jax", "xla_flags", "round_seconds", "quiet_lock")
PROGRAM_COLUMNS = {
    **dict.fromkeys(("collection", "split", "graph", *HOW), "text"),
    "rejected": "integer",
}
MEASURED = {"collection": "text", "graph": "text", "config": "integer", "optimized_hash": "text"}
LATER = {"program": None, COLUMN: None} | UNTOLD  # that datasets of earlier versions lack
ADVICE = "a dataset that lib.collect.xla.export wrote"


def read_exported(root: Path) -> list[Measurements]:
    """Every graph of a dataset; none if there is no dataset yet.

    Raises:
        DataError: a table or a graph cannot be believed.
    """
    path = root / "programs.parquet"
    return list(_graphs(root, path)) if path.exists() else []


def _graphs(root: Path, path: Path) -> Iterator[Measurements]:
    place = root / "measurements.parquet"
    measured = read_parquet(place, MEASURED, ADVICE, all_columns=True)
    if measured.schema.get("rounds") != pl.List(pl.Int64):
        raise DataError(place, "rounds", measured.schema.get("rounds"), "lists of nanoseconds")
    groups = measured.partition_by("collection", "graph", as_dict=True)
    for row in read_parquet(path, PROGRAM_COLUMNS, ADVICE, all_columns=True).iter_rows(named=True):
        rows = groups.get((row["collection"], row["graph"]))
        if rows is None:
            raise DataError(place, "graph", "no rows", f"those of {row['graph']}")
        yield _measurements(root, row, rows.sort("config"))


def _measurements(root: Path, row: dict[str, Any], rows: pl.DataFrame) -> Measurements:
    """One graph."""
    _, source, search = row["collection"].split("-")
    path = root / GRAPHS / source / search / row["split"] / f"{row['graph']}.npz"
    graph = read_layout(path)
    if len(rows) != len(graph.config_runtime):
        raise DataError(path, "config_runtime", len(graph.config_runtime), f"{len(rows)}, as told")
    return Measurements(
        source=source,
        search=search,
        name=row["graph"],
        graph=EncodedGraph(graph.node_feat, graph.node_opcode, graph.edge_index, graph.node_splits),
        nodes=graph.node_config_ids,
        configuration=graph.node_config_feat,
        rounds=_padded(rows["rounds"].to_list()),
        optimized_hash=rows["optimized_hash"].to_list(),
        rejected=row["rejected"],
        about={name: row[name] for name in HOW}
        | {name: row.get(name, was) for name, was in LATER.items()},
    )


def _padded(rounds: list[list[int]]) -> np.ndarray:
    """(c, r) int64, 0 where there are fewer rounds."""
    padded = np.zeros((len(rounds), max(map(len, rounds), default=0)), np.int64)
    for row, times in zip(padded, rounds, strict=True):
        row[: len(times)] = times
    return padded
