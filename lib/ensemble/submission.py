"""The file that Kaggle scores."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from lib.files.artifacts import atomic_file
from lib.files.errors import DataError


def submission_rows(
    scores: pl.DataFrame, identifier: str, counts: dict[str, int], listed: int | None = None
) -> list[tuple[str, str]]:
    """``(ID, TopConfigs)`` of each test graph, sorted by ID.

    Args:
        scores: ``graph, config, score`` of the test split, lower meaning faster.
        identifier: what the collection's IDs start with, such as ``layout:xla:default``.
        counts: how many configurations each test graph's source file has.
        listed: how many configurations a row names at most, the fastest; ``None`` for all.

    Raises:
        DataError: unless the scores cover all configurations of each graph, once.
    """
    rows = []
    ranked = scores.sort("score", "config").partition_by("graph", as_dict=True)
    for graph, count in sorted(counts.items()):
        order = ranked[graph,]["config"].to_list() if (graph,) in ranked else []
        if sorted(order) != list(range(count)):
            found = f"{len(order)} configurations"
            raise DataError("scores", graph, found, f"each of 0..{count - 1} once")
        rows.append((f"{identifier}:{graph}", ";".join(map(str, order[:listed]))))
    return rows


def write_submission(path: Path, rows: list[tuple[str, str]]) -> None:
    """Write ``ID,TopConfigs`` rows; a header alone if there is no test split."""
    with atomic_file(path) as temporary:
        lines = ["ID,TopConfigs", *(f"{name},{order}" for name, order in rows)]
        temporary.write_text("\n".join(lines) + "\n", encoding="utf-8")
