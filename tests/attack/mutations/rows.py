"""Damage to CSV files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.attack.mutations.values import TEXTS, content, shown

ROWS = (
    "",
    ",",
    "a",
    "a,b,c",
    '"a,0",1',
    "layout:xla:default:none,0",
    "tile:xla:test_0.v1,0;0",
    "tile:xla:test_0.v1,-1",
    "tile:nope:x,0",
    "layout:xla:default:test_0.v1,0;1;2",
    ":::,0",
    "layout:xla:default:test_0.v1,",
    "x:y,0",
    "layout,0",
    "tile,1",
    "<svg onload=alert(1)>,0",
)
NUMBERS = ("-1", "99", "1e3", "0x1", "²", "٣", "1_0", "", " 1", "+1", "9" * 30, "9" * 5000, "nan")
CHARACTERS = (
    (",", ";"),
    (";", ","),
    ("\n", "\r\n"),
    ("\n", "\r"),
    ("\n", "\u2028"),
    (":", "/"),
    ("I", "\ufeffI"),
    (",", ',"'),
    ("\n", "\n\n"),
    ("1", "١"),
    ("\n", "\x00\n"),
    (";", ";;"),
)


def change_index(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Another index somewhere."""
    lines = _lines(path)
    number = rng.randrange(len(lines))
    head, _, tail = lines[number].partition(",")
    indices = tail.split(";")
    place, new = rng.randrange(len(indices)), rng.choice(NUMBERS)
    indices[place] = new
    lines[number] = f"{head},{';'.join(indices)}"
    return _write(path, lines, f"line {number}: index {place} is {shown(new)}")


def change_name(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Another name in front."""
    lines = _lines(path)
    number, new = rng.randrange(len(lines)), rng.choice((*TEXTS, "ID", "tile:xla:", "layout:x:y:z"))
    lines[number] = f"{new},{lines[number].partition(',')[2]}"
    return _write(path, lines, f"line {number} begins with {shown(new)}")


def change_lines(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A line less, twice, elsewhere, or an odd one more."""
    lines = _lines(path)
    number, row = rng.randrange(len(lines)), rng.choice(ROWS)
    edits = {
        "without it": lines[:number] + lines[number + 1 :],
        "twice": lines[: number + 1] + lines[number:],
        "upside down": lines[::-1],
        f"before it {shown(row)}": [*lines[:number], row, *lines[number:]],
        "joined to the next": [*lines[:number], "".join(lines[number : number + 2])],
        "often": lines[:number] + lines[number : number + 1] * 1000,
    }
    what = rng.choice(list(edits))
    return _write(path, edits[what], f"line {number}: {what}")


def change_characters(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Other separators, ends of lines, encodings."""
    text = content(path).decode(errors="replace")
    old, new = rng.choice(CHARACTERS)
    path.write_bytes(text.replace(old, new).encode(rng.choice(("utf-8", "utf-8", "utf-16"))))
    return f"{shown(old)} is {shown(new)}"


MUTATIONS = (change_index, change_index, change_name, change_lines, change_lines, change_characters)


def _lines(path: Path) -> list[str]:
    return content(path).decode(errors="replace").splitlines() or [""]


def _write(path: Path, lines: list[str], what: str) -> str:
    path.write_text("\n".join(lines) + "\n", errors="surrogatepass")
    return what
