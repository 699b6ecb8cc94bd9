"""Damage to arrays: the members of npz archives, and the flat files of a cache."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from random import Random

import numpy as np

from tests.attack.mutations.values import NAMES, NUMBERS, Unsuitable, content, shown

TYPES = ("<f4", "<f8", "<i8", "|i1", "|u1", "|b1", ">i4", "<U5", "|V8", "<c16", "|S3", "<M8[ns]")
SHAPES = (
    (),
    (0,),
    (1,),
    (5,),
    (0, 140),
    (5, 140),
    (14, 140),
    (9, 3, 18),
    (2**31,),
    (2**62,),
    (-1,),
)
BOMB_BYTES = 1 << 28  # of zeros, in a quarter of a megabyte
WIDTHS = (np.uint8, np.int32, np.int64, np.float32)


def change_values(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Other numbers in an array, which keeps its type and shape."""
    parts = _read(path)
    key, array = _array(parts, rng)
    if not array.size:
        raise Unsuitable
    array = array.copy()
    flat, value = array.reshape(-1), rng.choice(NUMBERS)
    where = rng.choice((slice(None), rng.randrange(len(flat)), rng.randrange(len(flat))))
    with np.errstate(all="ignore"):
        try:
            flat[where] = np.array(value).astype(array.dtype)
        except (OverflowError, ValueError):
            raise Unsuitable from None
    _write(path, parts | {key: _npy(array)}, rng)
    return f"{key}: {value} at {shown(where)}"


def change_form(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """An array of another type or shape."""
    parts = _read(path)
    key, array = _array(parts, rng)
    kind = rng.choice(TYPES)
    edits = {
        f"as {kind}": lambda: array.astype(kind),
        "transposed": lambda: np.asfortranarray(array),
        "turned": lambda: array.T.copy(),
        "of one dimension more": lambda: array[None],
        "flat": lambda: array.reshape(-1),
        "without its last row": lambda: array[:-1],
        "a row twice": lambda: np.concatenate([array, array[:1]]),
        "without rows": lambda: array[:0],
        "without columns": lambda: array[..., :0],
        "a scalar": lambda: array.reshape(-1)[0],
        "upside down": lambda: array[::-1],
        "pickled": lambda: array.astype(object),
    }
    what = rng.choice(list(edits))
    try:
        with np.errstate(all="ignore"):
            new = _npy(np.asarray(edits[what]()), what == "pickled")
    except (ValueError, IndexError, TypeError):
        raise Unsuitable from None
    _write(path, parts | {key: new}, rng)
    return f"{key} {what}"


def change_header(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A header that promises what is not there."""
    parts = _read(path)
    key, array = _array(parts, rng)
    shape, kind = rng.choice((*SHAPES, array.shape)), rng.choice((*TYPES, "|O", array.dtype.str))
    file = io.BytesIO()
    about = {"descr": kind, "fortran_order": rng.random() < 0.2, "shape": shape}
    np.lib.format.write_array_header_1_0(file, about)
    _write(path, parts | {key: file.getvalue() + array.tobytes()}, rng)
    return f"{key}: {kind} {shape}"


def change_members(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A member less, of another name, or two with each other's content."""
    parts = _read(path)
    key, other = rng.choice(sorted(parts)), rng.choice(sorted(parts))
    name = rng.choice((*NAMES[:6], *NAMES[8:-2], b"../x", b"/x", b"", key.encode() + b".npy"))
    what = rng.choice(("drop", "rename", "swap", "copy"))
    if what == "drop":
        del parts[key]
    elif what == "swap":
        parts[key], parts[other] = parts[other], parts[key]
    else:
        data = parts.pop(key) if what == "rename" else parts[key]
        parts[name.decode(errors="replace").replace("\0", "")] = data
    _write(path, parts, rng)
    return f"{what} {key}" + {"swap": f", {other}", "drop": ""}.get(what, f", {shown(name)}")


def write_twice(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A member of which there are two."""
    parts = _read(path)
    key = rng.choice(sorted(parts))
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"x" * rng.choice((0, 3, 60000))
        info = zipfile.ZipInfo(f"{key}.npy")
        archive.filelist, names = [*archive.filelist], archive.NameToInfo
        names.pop(info.filename, None)
        archive.writestr(info, parts[rng.choice(sorted(parts))])
    return key


def bomb(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A member of very many zeros."""
    parts = _read(path)
    key, array = _array(parts, rng)
    row = max(1, int(np.prod(array.shape[1:])) * array.dtype.itemsize)
    shape = (BOMB_BYTES // row, *array.shape[1:])
    _write(path, {name: data for name, data in parts.items() if name != key}, rng)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        info = zipfile.ZipInfo(f"{key}.npy")
        info.compress_type = zipfile.ZIP_DEFLATED
        with archive.open(info, "w", force_zip64=True) as file:
            about = {"descr": array.dtype.str, "fortran_order": False, "shape": shape}
            np.lib.format.write_array_header_1_0(file, about)
            for _ in range(row * shape[0] >> 20):
                file.write(bytes(1 << 20))
            file.write(bytes(row * shape[0] & ((1 << 20) - 1)))
    return f"{key} {shape}"


IN_ARCHIVES = (change_values, change_values, change_values, change_form, change_form, change_header)
IN_ARCHIVES += (change_members, change_members, write_twice, bomb)


def change_flat_values(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Other numbers in a flat file, of the same size."""
    data = content(path)
    width = np.dtype(rng.choice(WIDTHS))
    array = np.frombuffer(data[: len(data) // width.itemsize * width.itemsize], width).copy()
    if not len(array):
        raise Unsuitable
    value, start = rng.choice(NUMBERS), rng.randrange(len(array))
    with np.errstate(all="ignore"):
        try:
            array[start : start + rng.choice((1, 1, 100))] = np.array(value).astype(width)
        except (OverflowError, ValueError):
            raise Unsuitable from None
    path.write_bytes(array.tobytes() + data[array.nbytes :])
    return f"{value} at {start} of {width}"


def exchange(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Two runs of bytes with each other's content."""
    data = bytearray(content(path))
    count = min(rng.choice((1, 4, 8, 64)), len(data) // 2)
    one, other = (rng.randrange(len(data) // max(1, count)) * count for _ in range(2))
    if one == other or not count:
        raise Unsuitable
    first, second = data[one : one + count], data[other : other + count]
    if len(first) != len(second) or first == second:
        raise Unsuitable
    data[one : one + count], data[other : other + count] = second, first
    path.write_bytes(data)
    return f"{count} bytes at {one} and {other}"


IN_FLAT_FILES = (change_flat_values, exchange)


def _read(path: Path) -> dict[str, bytes]:
    content(path)
    try:
        with zipfile.ZipFile(path) as archive:
            parts = {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}
    except (zipfile.BadZipFile, zlib.error, OSError, ValueError, EOFError, RuntimeError):
        raise Unsuitable from None
    if not parts:
        raise Unsuitable
    return parts


def _array(parts: dict[str, bytes], rng: Random) -> tuple[str, np.ndarray]:
    key = rng.choice(sorted(parts))
    try:
        return key, np.lib.format.read_array(io.BytesIO(parts[key]), allow_pickle=False)
    except ValueError:
        raise Unsuitable from None


def _npy(array: np.ndarray, pickled: bool = False) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=pickled)
    return file.getvalue()


def _write(path: Path, parts: dict[str, bytes], rng: Random) -> None:
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(path, "w", method) as archive:
        for key, data in parts.items():
            archive.writestr(zipfile.ZipInfo(f"{key}.npy"), data, method)
