"""Values that programs stumble over, and what mutations share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

Mutation = Callable[[Path, Random, Sequence[Path]], str]


class Unsuitable(Exception):
    """The mutation cannot be done to this file."""


LARGEST = 1 << 26  # bytes of a file whose content is changed
NUMBERS = (
    0,
    -1,
    1,
    2,
    5,
    7,
    127,
    255,
    256,
    2**31 - 1,
    2**31,
    -(2**31),
    2**63 - 1,
    -(2**63),
    2**63,
    0.5,
    -0.0,
    1e-300,
    1e38,
    1e300,
    math.nan,
    math.inf,
    -math.inf,
)
TEXTS = (
    "",
    " ",
    "0",
    "-1",
    "nan",
    "é",
    "a,b",
    "a:b",
    "a;b",
    "a\nb",
    "a\rb",
    "a\u2028b",
    "a\x85b",
    "<svg onload=alert(1)>",
    "<script>alert(1)</script>",
    "../../x",
    "/dev/null",
    "x" * 5000,
    "\x00",
    "\x1b[31m",
    "\u202e",
    "٣",
    "²",
    "\ud800",
    "layout-xla-default",
    "=1+1",
    "None",
)
# Names of files; bytes, since a file's name need not be text.
NAMES = (
    b"a,b",
    b"a:b",
    b"a;b",
    b"a\nb",
    b"a\rb",
    "a\u2028b".encode(),
    "a\x85b".encode(),
    b"\xff\xfe",
    b"<svg onload=alert(1)>",
    b" ",
    b"-x",
    b".hidden",
    "é".encode(),
    b"%s",
    b"{0}",
    b"x" * 240,
    b"a\tb",
    b'a"b',
    b"a'b",
    b"*",
    b"[a]",
    b"~",
    b"$HOME",
    b"\x1b[31m",
    b"a..b",
)
FOLD_NAMES = ("fold_²", "fold_٣", "fold_-1", "fold_007", "fold_x", "fold_", f"fold_{10**30}")


def any_value(rng: Random) -> Any:
    """A value that JSON can hold, or nearly."""
    whole = (None, True, False, [], {}, [[]], {"": None}, [1, "a"], 10**400)
    return rng.choice((*whole, rng.choice(NUMBERS), rng.choice(TEXTS)))


def shown(value: object) -> str:
    """A value as a few plain characters."""
    text = ascii(value)
    return text if len(text) <= 40 else f"{text[:30]}...{len(text)}"


def content(path: Path) -> bytes:
    """A file's bytes; raises :class:`Unsuitable` if it is none, is empty or very large."""
    if not path.is_file() or not 0 < path.stat().st_size <= LARGEST:
        raise Unsuitable
    return path.read_bytes()


def position(rng: Random, data: bytes) -> int:
    """Somewhere in some bytes, near one of their ends half of the time."""
    near = min(len(data), 200)
    last = len(data) - 1
    return rng.choice(
        (rng.randrange(len(data)), rng.randrange(near), last - rng.randrange(near), last // 2)
    )
