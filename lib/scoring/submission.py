"""The file that Kaggle scores, ``ID,TopConfigs``: written, read, checked and scored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import polars as pl

from lib.files.artifacts import atomic_file
from lib.files.errors import DataError
from lib.files.regular import read_regular
from lib.ranking.measures import measures_of

HEADER = "ID,TopConfigs"
MAX_BYTES = 1 << 30  # of a submission; that of all official graphs has 11 MB


def submission_lines(
    scores: pl.DataFrame, identifier: str, counts: Mapping[str, int], listed: int | None = None
) -> list[tuple[str, str]]:
    """``(ID, TopConfigs)`` of each test graph, sorted by ID.

    Args:
        scores: ``graph, config, place`` of the test split, the fastest at place 0.
        identifier: what the collection's IDs start with, such as ``layout:xla:default``.
        counts: how many configurations each test graph's source file has.
        listed: how many configurations a line names at most, the fastest; ``None`` for all.

    Raises:
        DataError: unless the scores cover all configurations of each graph, once.
    """
    lines = []
    ranked = scores.sort("place").partition_by("graph", as_dict=True)
    for graph, count in sorted(counts.items()):
        order = ranked[graph,]["config"].to_list() if (graph,) in ranked else []
        if sorted(order) != list(range(count)):
            actual = f"{len(order)} configurations"
            raise DataError("scores", graph, actual, f"each of 0..{count - 1} once")
        lines.append((f"{identifier}:{graph}", ";".join(map(str, order[:listed]))))
    return lines


def write_submission(path: Path, lines: list[tuple[str, str]]) -> None:
    """Write ``ID,TopConfigs`` lines; a header alone if there is no test split."""
    with atomic_file(path) as temporary:
        text = [HEADER, *(f"{name},{order}" for name, order in lines)]
        temporary.write_text("\n".join(text) + "\n", encoding="utf-8")


def read_entries(path: Path) -> dict[str, np.ndarray]:
    """The configurations that each ID of a submission names, (n,) int64, in the file's order.

    An ID that names none, with or without a comma behind it, has an empty array.

    Raises:
        DataError: if the file is not a submission, or has an ID twice.
    """
    entries: dict[str, np.ndarray] = {}
    for number, name, text in _lines(path):
        if name in entries:
            raise DataError(path, f"line {number}", f"{name} once more", "each ID once")
        if text and not (text.replace(";", "").isdecimal() and text.isascii()):
            actual = f"{text[:40]!r} for {name}"
            raise DataError(path, f"line {number}", actual, "indices joined by ;")
        try:
            entries[name] = np.array(text.split(";") if text else [], np.int64)
        except (ValueError, OverflowError):
            actual = f"{text[:40]!r} for {name}"
            raise DataError(path, f"line {number}", actual, "indices joined by ;") from None
    return entries


def check_entry(path: Path, name: str, order: np.ndarray, count: int) -> None:
    """Raise a :class:`DataError` unless an entry is what its kind wants.

    Args:
        path: where it stands, for the message.
        name: its ID.
        order: (n,) the configurations it names.
        count: how many its graph has.
    """
    kind = measures_of(name)
    length = kind.length(count)
    inside = (order >= 0) & (order < count)
    distinct = len(np.unique(order))
    if len(order) == distinct == length and inside.all():
        return
    actual = f"{len(order)} indices, {distinct} distinct, {int((~inside).sum())} out of range"
    raise DataError(path, name, actual, kind.entry.format(length=length, last=count - 1))


def entry_score(name: str, order: np.ndarray, runtimes: np.ndarray) -> float:
    """The metric that counts of a checked entry."""
    places = np.full(len(runtimes), len(order), np.int64)
    places[order] = np.arange(len(order))
    return measures_of(name).main.compute(places, runtimes)


def _lines(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield ``(line number, ID, TopConfigs)``; no ID has a comma or a quote in it."""
    try:
        text = read_regular(path, MAX_BYTES).decode("utf-8-sig")
    except ValueError as error:
        raise DataError(path, "text", error, "a submission, in UTF-8") from None
    first, *lines = text.replace('"', "").split("\n")
    if [field.strip() for field in first.split(",")] != HEADER.split(","):
        raise DataError(path, "line 1", repr(first[:60]), HEADER)
    for number, line in enumerate(lines, 2):
        name, _, order = line.strip().partition(",")
        if name or order:
            yield number, name, order.strip()
