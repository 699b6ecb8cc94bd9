"""Damage to safetensors files: their header, and the numbers behind it."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from lib.files import tensor_file
from tests.attack.mutations import records
from tests.attack.mutations.values import TEXTS, Unsuitable, content, shown

TYPES = ("F32", "F16", "BF16", "F64", "I64", "U8", "BOOL", "F8_E4M3", "X9", "")


def change_numbers(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Other numbers in a tensor."""
    header, data = _read(path)
    name = _tensor(header, rng)
    start, stop = header[name]["data_offsets"]
    if header[name]["dtype"] != "F32" or start == stop:
        raise Unsuitable
    values = np.frombuffer(data[start:stop], np.float32).copy()
    new = rng.choice((np.nan, np.inf, 0.0, 1e30, -1.0))
    values[rng.choice((slice(None), rng.randrange(len(values))))] = new
    _write(path, header, data[:start] + values.tobytes() + data[stop:])
    return f"{name}: {new}"


def change_entry(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A tensor of another type, another shape, or from elsewhere in the file."""
    header, data = _read(path)
    name = _tensor(header, rng)
    entry = header[name]
    what = rng.choice(("dtype", "shape", "shape", "data_offsets"))
    if what == "dtype":
        entry[what] = rng.choice(TYPES)
    elif what == "shape":
        shape = entry[what]
        odd = (shape[::-1], [*shape, 1], [1, *shape], shape[1:], [0], [-1], [2**63], [2**32, 2**32])
        entry[what] = rng.choice((*odd, [int(np.prod(shape))]))
    else:
        entry[what] = rng.choice(
            ([0, 0], [0, 2**63], [5, 1], [-1, 3], None, [0], list(entry[what]))
        )
    _write(path, header, data)
    return f"{name}: {what} is {shown(entry[what])}"


def change_names(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A tensor less, of another name, or twice."""
    header, data = _read(path)
    name = _tensor(header, rng)
    new = rng.choice(
        (*TEXTS[:-5], _tensor(header, rng), "optimizer.x.exp_avg", "optimizer.", "last.")
    )
    what = rng.choice(("drop", "rename", "copy"))
    entry = header[name] if what == "copy" else header.pop(name)
    if what != "drop":
        header[new] = entry
    _write(path, header, data)
    return f"{what} {name}" + ("" if what == "drop" else f", {shown(new)}")


def change_about(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """What the file says of its tensors."""
    header, data = _read(path)
    if rng.random() < 0.1:
        odd = rng.choice((None, {}, {"about": 1}, {"about": None}, [], {"x": "y"}, {"about": ""}))
        header["__metadata__"] = odd
        _write(path, header, data)
        return f"metadata {odd}"
    document = path.with_name("about.json")
    document.write_text(header.get("__metadata__", {}).get(tensor_file.KEY) or "{}")
    try:
        change = rng.choice(records.MUTATIONS)
        what = f"{change.__name__} {change(document, rng, others)}"
        header["__metadata__"] = {tensor_file.KEY: document.read_bytes().decode(errors="replace")}
    finally:
        document.unlink()
    _write(path, header, data)
    return f"about: {what}"


def change_length(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Another length of the header."""
    data = content(path)
    length = rng.choice((0, 1, 2**63, 2**64 - 1, 10**8, len(data), len(data) - 8))
    path.write_bytes(struct.pack("<Q", length) + data[8:])
    return f"header of {length} bytes"


MUTATIONS = (change_numbers, change_numbers, change_entry, change_names, change_about, change_about)
MUTATIONS += (change_length,)


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    data = content(path)
    try:
        (length,) = struct.unpack("<Q", data[:8])
        return json.loads(data[8 : 8 + length]), data[8 + length :]
    except (struct.error, ValueError):
        raise Unsuitable from None


def _write(path: Path, header: dict[str, Any], data: bytes) -> None:
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def _tensor(header: dict[str, Any], rng: Random) -> str:
    names = sorted(name for name in header if name != "__metadata__")
    if not names:
        raise Unsuitable
    return rng.choice(names)
