"""What is done to a file: to any file, and to what is in one of a known format.

A mutation is called as ``mutation(path, rng)``, draws all that is random from ``rng``, and returns
what it did in a few words.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import polars as pl

Mutation = Callable[[Path, Random], str]
NUMBERS = (0, -1, 1, 5, 7, 127, 256, 2**31, -(2**63), 2**63, 0.5, 1e300, math.nan, -math.inf)
TEXTS = ("", " ", "nan", "a,b", "a:b", "a\nb", "a\u2028b", "<svg onload=alert(1)>", "../../x")
TEXTS += ("x" * 5000, "\x00", "\x1b[31m", "\u202e", "²", "layout-xla-default", "=1+1")
# What would run as code, where an archive's expressions and names of operators are evaluated.
TEXTS += ("Integer(__import__('os').system('touch planted'))", "torch.ops.os.system", "os.system")
VALUES = (*NUMBERS, *TEXTS, None, True, [], {}, [[]], {"": None}, [1, "a"], 10**400)
ATTEMPTS = 20


def flip(path: Path, rng: Random) -> str:
    """Other bytes in a few places."""
    data = bytearray(path.read_bytes())
    places = [rng.randrange(len(data)) for _ in range(rng.randint(1, 6))]
    for place in places:
        data[place] ^= rng.randint(1, 255)
    path.write_bytes(data)
    return f"bytes at {places}"


def cut(path: Path, rng: Random) -> str:
    """A part of the file, or more than all of it."""
    data = path.read_bytes()
    size = rng.randrange(len(data))
    path.write_bytes(rng.choice((data[:size], data[size:], data + data, b"", data + b"\0" * 999)))
    return f"cut at {size}"


def another_kind(path: Path, rng: Random) -> str:
    """Something that is no regular file."""
    kind = rng.choice(("gone", "folder", "pipe", "device", "far link", "link to itself"))
    path.unlink()
    makers = {
        "gone": lambda: None,
        "folder": path.mkdir,
        "pipe": lambda: os.mkfifo(path),
        "device": lambda: path.symlink_to("/dev/zero"),
        "far link": lambda: path.symlink_to("/far/away"),
        "link to itself": lambda: path.symlink_to(path.name),
    }
    makers[kind]()
    return kind


def swap(path: Path, rng: Random) -> str:
    """Another file of the same kind."""
    others = [other for other in path.parent.glob(f"*{path.suffix}") if other != path]
    other = rng.choice(others)
    shutil.copy(other, path)
    return f"content of {other.name}"


def change_array(path: Path, rng: Random) -> str:
    """An array of other values, another shape or type, or that is not there."""
    with np.load(path) as file:
        arrays = {key: file[key] for key in file}
    key = rng.choice(sorted(arrays))
    array = arrays[key].copy()
    what = rng.choice(
        ("value", "value", "value", "cut", "twice", "turned", "type", "gone", "pickle")
    )
    with np.errstate(all="ignore"):
        if what == "value":
            value = rng.choice(NUMBERS)
            array.reshape(-1)[rng.randrange(array.size)] = np.float64(value).astype(array.dtype)
            what = f"value {value}"
        elif what == "type":
            array = array.astype(rng.choice(("f2", "f8", "i1", "u8", "?", "U3", "c8", ">i4")))
    changed = {"cut": array[1:], "twice": np.repeat(array, 2, 0), "turned": array.T}
    changed["pickle"] = np.array([object] * len(array), object)
    arrays[key] = changed.get(what, array)
    if what == "gone":
        del arrays[key]
    np.savez_compressed(path, **arrays)
    return f"{key}: {what}"


def grow_array(path: Path, rng: Random) -> str:
    """An array that is small on the disk and large in memory."""
    with np.load(path) as file:
        arrays = {key: file[key] for key in file}
    key = rng.choice(sorted(arrays))
    shape = (rng.choice((2**20, 2**24)), *arrays.pop(key).shape[1:])
    np.savez(path, **arrays)
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(f"{key}.npy", "w", force_zip64=True) as file,
    ):
        header = {"descr": "<i8", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(math.prod(shape) * 8 >> 20):
            file.write(bytes(1 << 20))
    return f"{key}: {shape}"


def change_table(path: Path, rng: Random) -> str:
    """A table of other values, types, columns or rows."""
    frame = pl.read_parquet(path)
    column, row = rng.choice(frame.columns), rng.randrange(len(frame))
    value = rng.choice((None, *NUMBERS[:-4], *TEXTS[:8]))
    here = pl.int_range(pl.len()) == row
    new = pl.when(here).then(pl.lit(value).cast(frame.schema[column], strict=False))
    edits = {
        f"{value!r} in {column}": lambda: frame.with_columns(
            new.otherwise(pl.col(column)).alias(column)
        ),
        f"{column} as text": lambda: frame.with_columns(pl.col(column).cast(pl.String)),
        f"{column} as lists": lambda: frame.with_columns(pl.concat_list(column).alias(column)),
        f"no {column}": lambda: frame.drop(column),
        "no rows": frame.clear,
        "rows twice": lambda: pl.concat([frame, frame]),
        "a row less": lambda: pl.concat([frame[:row], frame[row + 1 :]]),
        "many rows": lambda: frame[[row] * 3_000_000],
    }
    what = rng.choice(sorted(edits))
    edits[what]().write_parquet(path)
    return what


def change_document(path: Path, rng: Random) -> str:
    """A value of a JSON document replaced, removed or nested, or text that is no JSON."""
    if rng.random() < 0.1:
        text = rng.choice(("{", "[" * 100_000, "NaN", "", "9" * 5000, "\ufeff{}", '{"a":1,"a":2}'))
        path.write_text(text)
        return f"text {text[:9]!r}"
    lines = path.suffix == ".jsonl"
    text = path.read_text()
    document = [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)
    inside: Any = document
    place: Any = None
    while isinstance(inside, dict | list) and inside and (place is None or rng.random() < 0.7):
        holder = inside
        place = rng.choice(sorted(inside) if isinstance(inside, dict) else range(len(inside)))
        inside = inside[place]
    value = rng.choice(VALUES)
    if rng.random() < 0.2:
        del holder[place]
    else:
        holder[place] = value
    written = "\n".join(map(json.dumps, document)) if lines else json.dumps(document)
    path.write_text(written)
    return f"{place}: {ascii(value)[:40]}"


def change_archive(path: Path, rng: Random) -> str:
    """A document of a zip changed, such as the graph that torch.export writes; or no such part."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(sorted(parts, key=lambda name: (not name.endswith(".json"), name))[:4])
    if name.endswith(".json"):
        inside = path.with_name("inside.json")
        inside.write_bytes(parts[name])
        what = change_document(inside, rng)
        parts[name] = inside.read_bytes()
        inside.unlink()
    else:
        del parts[name]
        what = "gone"
    with zipfile.ZipFile(path, "w") as archive:
        for part, content in parts.items():
            archive.writestr(part, content)
    return f"{name}: {what}"


def change_message(path: Path, rng: Random) -> str:
    """A field of a protobuf, such as a node of an ONNX graph, gone, twice or of another value."""
    changed, what = _message(path.read_bytes(), rng)
    path.write_bytes(changed)
    return what


def _message(data: bytes, rng: Random) -> tuple[bytes, str]:
    """A message of other content, at any depth; ValueError if the bytes are none."""
    fields, at = [], 0
    while at < len(data):
        (key, start), begin = _varint(data, at), at
        if key & 7 == 0:
            at = _varint(data, start)[1]
        elif key & 7 == 2:
            size, start = _varint(data, start)
            at = start + size
        else:
            at = start + {1: 8, 5: 4}.get(key & 7, len(data))
        if at > len(data) or not key >> 3:
            raise ValueError("no message")
        fields.append((key, data[begin:at], data[start:at]))
    place = rng.randrange(len(fields))
    key, whole, value = fields[place]
    pieces = [field for _, field, _ in fields]
    what = rng.choice(("gone", "twice", "other", "deeper", "deeper", "deeper"))
    if what == "deeper" and key & 7 == 2:
        try:
            value, what = _message(value, rng)
        except ValueError:
            value, what = rng.choice(TEXTS).encode(), "text"
    elif what in ("other", "deeper") and key & 7 == 0:
        value = _written(rng.choice((0, 1, 2, 99, 2**31, 2**63, 2**64 - 1)))
    changed = _written(key) + (_written(len(value)) if key & 7 == 2 else b"") + value
    pieces[place] = {"gone": b"", "twice": whole + whole}.get(what, changed)
    return b"".join(pieces), f"{key >> 3}.{what}"


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A number of variable length, and where it ends."""
    value = shift = 0
    while data[at] & 128:
        value, shift, at = value | (data[at] & 127) << shift, shift + 7, at + 1
    return value | data[at] << shift, at + 1


def _written(number: int) -> bytes:
    """A number as :func:`_varint` reads it."""
    low, rest = number & 127, number >> 7
    return bytes([low | 128]) + _written(rest) if rest else bytes([low])


def change_line(path: Path, rng: Random) -> str:
    """Another word in a line of a CSV."""
    lines = path.read_text().split("\n")
    number = rng.randrange(len(lines))
    head, _, tail = lines[number].partition(",")
    words = rng.choice(("-1", "99", "1e3", "²", "", "9" * 5000, "nan", f"{tail};{tail}", *TEXTS))
    lines[number] = rng.choice((f"{head},{words}", words, f"{words},{tail}"))
    path.write_text("\n".join(lines))
    return f"line {number}: {ascii(lines[number])[:40]}"


ANY: tuple[Mutation, ...] = (flip, flip, cut, another_kind, swap)
INSIDE: dict[str, tuple[Mutation, ...]] = {
    ".npz": (change_array, change_array, change_array, grow_array),
    ".parquet": (change_table,),
    ".json": (change_document,),
    ".jsonl": (change_document,),
    ".csv": (change_line,),
    ".pb": (change_message,),
    ".onnx": (change_message,),
    ".pt2": (change_archive,),
}


def mutate(path: Path, rng: Random) -> str:
    """Damage a file in a way that suits it; return what was done."""
    for _ in range(ATTEMPTS):
        inside = INSIDE.get(path.suffix, ())
        chosen = rng.choice(inside if inside and rng.random() < 0.6 else ANY)
        try:
            return f"{chosen.__name__}: {chosen(path, rng)}"
        except (ValueError, TypeError, IndexError, OverflowError, pl.exceptions.PolarsError):
            continue  # it cannot be done to this file
        except OSError:  # a command that runs has just replaced it
            break
    return "nothing"
