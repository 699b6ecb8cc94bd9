"""Text for people: aligned tables, and colour where a terminal shows it."""

from __future__ import annotations

from collections.abc import Sequence

UNITS = ("B", "kB", "MB", "GB", "TB")
GLUE = "\N{NO-BREAK SPACE}"  # between a number and its unit
WIDE = 10_000  # characters: lines are never broken, whatever a terminal's width


def paint(text: object, *styles: str) -> str:
    """Text, or what else ``rich`` shows, in its styles if a terminal reads it that wants them.

    https://no-color.org
    """
    from rich.console import Console  # late: it takes a tenth of a second

    console = Console(markup=False, highlight=False, emoji=False, width=WIDE)
    with console.capture() as captured:
        console.print(text, style=" ".join(styles), end="")
    return captured.get()


def printable(text: str) -> str:
    """Return a name from somebody's file as a terminal may show it: what it would act on, such as
    ESC, a line break or a mark that reverses the direction of writing, is written out."""
    shown = (c if c.isprintable() or c == GLUE else ascii(c)[1:-1] for c in text)
    return "".join(shown)


def table(rows: Sequence[Sequence[str]], head: Sequence[str] = ()) -> str:
    """Aligned text: the first column to the left, all other columns to the right.

    Args:
        rows: cells of plain text, no colour; every row as long as ``head``, if that is given.
        head: titles of the columns.
    """
    from rich.table import Column, Table

    titles = head or [""] * max(map(len, rows), default=0)
    columns = [
        Column(title, justify="right" if k else "left", header_style="bold", no_wrap=True)
        for k, title in enumerate(titles)
    ]
    grid = Table(*columns, box=None, show_header=bool(head), pad_edge=False, padding=(0, 3, 0, 0))
    for row in rows:
        grid.add_row(*map(printable, row))
    return "\n".join(line.rstrip() for line in paint(grid).splitlines()) if titles else ""


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
        if count < 999.5 or unit == UNITS[-1]:
            break
        count /= 1000
    return f"{count:.3g} {unit}"
