"""The file that Kaggle scores."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from lib.files.artifacts import atomic_file
from lib.files.errors import DataError

HEADER = "ID,TopConfigs"


def submission_lines(
    scores: pl.DataFrame, identifier: str, counts: dict[str, int], listed: int | None = None
) -> list[tuple[str, str]]:
    """``(ID, TopConfigs)`` of each test graph, sorted by ID.

    Args:
        scores: ``graph, config, score`` of the test split, lower meaning faster.
        identifier: what the collection's IDs start with, such as ``layout:xla:default``.
        counts: how many configurations each test graph's source file has.
        listed: how many configurations a line names at most, the fastest; ``None`` for all.

    Raises:
        DataError: unless the scores cover all configurations of each graph, once.
    """
    lines = []
    ranked = scores.sort("score", "config").partition_by("graph", as_dict=True)
    for graph, count in sorted(counts.items()):
        order = ranked[graph,]["config"].to_list() if (graph,) in ranked else []
        if sorted(order) != list(range(count)):
            found = f"{len(order)} configurations"
            raise DataError("scores", graph, found, f"each of 0..{count - 1} once")
        lines.append((f"{identifier}:{graph}", ";".join(map(str, order[:listed]))))
    return lines


def write_submission(path: Path, lines: list[tuple[str, str]]) -> None:
    """Write ``ID,TopConfigs`` lines; a header alone if there is no test split."""
    with atomic_file(path) as temporary:
        text = [HEADER, *(f"{name},{order}" for name, order in lines)]
        temporary.write_text("\n".join(text) + "\n", encoding="utf-8")
