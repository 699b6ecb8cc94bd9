"""Text for people: aligned tables, and colour where a terminal shows it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TextIO

CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34"}
UNITS = ("B", "kB", "MB", "GB", "TB")


def has_colour(stream: TextIO | None = None) -> bool:
    """Whether colour reaches a reader: a terminal, and not refused (https://no-color.org)."""
    stream = stream or sys.stdout
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return stream.isatty()


def paint(text: str, *styles: str, stream: TextIO | None = None) -> str:
    """``text`` in the named styles of :data:`CODES`; itself where there is no colour."""
    if not styles or not has_colour(stream):
        return text
    return f"\x1b[{';'.join(CODES[style] for style in styles)}m{text}\x1b[0m"


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = (), gap: int = 3) -> str:
    """Aligned text: the first column to the left, all other columns to the right.

    Args:
        rows: cells of plain text, no colour; every row as long as ``head``, if that is given.
        head: titles of the columns.
        gap: spaces between columns.
    """
    lines = [list(head)] * bool(head) + [list(row) for row in rows]
    if not lines:
        return ""
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    shown = []
    for line in lines:
        cells = [line[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        shown.append((" " * gap).join(cells).rstrip())
    if head:
        shown[0] = paint(shown[0], "bold")
    return "\n".join(shown)


def counted(number: float, what: str) -> str:
    """``1 epoch``, ``2 epochs``, ``1,000 epochs``, ``17.5 epochs``."""
    return f"{number:,g} {what}{'s' * (number != 1)}"


def duration(seconds: float) -> str:
    """Seconds for people: ``0.4 s``, ``12 s``, ``3 min 05 s``, ``2 h 10 min``."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def readable(count: float) -> str:
    """Bytes for people, with a unit and three significant digits: ``13.4 MB``."""
    for unit in UNITS:
        if count < 1000 or unit == UNITS[-1]:
            break
        count /= 1000
    return f"{count:.3g} {unit}"
