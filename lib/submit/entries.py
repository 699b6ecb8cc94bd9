"""Entries of a submission, an ID and the configurations it names: read, checked and scored."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lib.files.errors import DataError
from lib.files.regular import read_regular
from lib.ranking.kinds import kind_of
from lib.runs.submission import HEADER

MAX_BYTES = 1 << 30  # of a submission; one of all official graphs has 11 MB


def read_entries(path: Path) -> dict[str, np.ndarray]:
    """The configurations that each ID of a submission names, (n,) int64, in the file's order.

    Raises:
        DataError: if the file is not a submission, or has an ID twice.
    """
    entries: dict[str, np.ndarray] = {}
    for number, name, text in _lines(path):
        if name in entries:
            raise DataError(path, f"line {number}", f"{name} once more", "each ID once")
        if not text.replace(";", "").isdecimal() or not text.isascii():
            found = f"{text[:40]!r} for {name}"
            raise DataError(path, f"line {number}", found, "indices joined by ;")
        try:
            entries[name] = np.array(text.split(";"), np.int64)
        except (ValueError, OverflowError):
            found = f"{text[:40]!r} for {name}"
            raise DataError(path, f"line {number}", found, "indices joined by ;") from None
    return entries


def read_ids(path: Path) -> list[str]:
    """The IDs of a submission such as Kaggle's ``sample_submission.csv``, in the file's order.

    Raises:
        DataError: if the file is not a submission, or has an ID twice.
    """
    ids = [name for _, name, _ in _lines(path)]
    seen: set[str] = set()
    for name in ids:
        if name in seen:
            raise DataError(path, "ID", f"{name} twice", "each ID once")
        seen.add(name)
    return ids


def check_entry(path: Path, name: str, order: np.ndarray, count: int) -> None:
    """Raise a :class:`DataError` unless an entry is what its kind wants.

    Args:
        path: where it stands, for the message.
        name: its ID.
        order: (n,) the configurations it names.
        count: how many its graph has.
    """
    kind = kind_of(name)
    length = kind.length(count)
    inside = (order >= 0) & (order < count)
    distinct = len(np.unique(order))
    if len(order) == distinct == length and inside.all():
        return
    found = f"{len(order)} indices, {distinct} distinct, {int((~inside).sum())} out of range"
    raise DataError(path, name, found, kind.entry.format(length=length, last=count - 1))


def entry_score(name: str, order: np.ndarray, runtimes: np.ndarray) -> float:
    """The metric that counts of a checked entry."""
    places = np.full(len(runtimes), len(order), np.int64)
    places[order] = np.arange(len(order))
    return kind_of(name).main.compute(places, runtimes)


def _lines(path: Path) -> list[tuple[int, str, str]]:
    """``(line number, ID, TopConfigs)``.

    A field may be longer than the csv module allows. Readers of tables such as pandas' mend what
    has to be refused here: they take a line with a field too many for one with an index column,
    fill one with a field too few, and tell no line's number.
    """
    try:
        lines = read_regular(path, MAX_BYTES).decode().splitlines()
    except ValueError as error:
        raise DataError(path, "file", error, "a submission") from None
    if not lines or lines[0].strip() != HEADER:
        raise DataError(path, "line 1", repr((lines or [""])[0][:60]), HEADER)
    numbered = enumerate(lines[1:], start=2)
    return [(n, *line.strip().partition(",")[::2]) for n, line in numbered if line.strip()]
