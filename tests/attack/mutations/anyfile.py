"""Damage that any file can take: to its bytes, and to what lies where it should."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from random import Random

from tests.attack.mutations.values import FOLD_NAMES, NAMES, Unsuitable, content, position, shown

SPARSE_BYTES = 1 << 36  # of a file of nothing, which takes no room


def flip_bits(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Flip a few bits."""
    data = bytearray(content(path))
    places = [position(rng, data) for _ in range(rng.choice((1, 1, 2, 8)))]
    for place in places:
        data[place] ^= 1 << rng.randrange(8)
    path.write_bytes(data)
    return f"at {places}"


def overwrite(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Overwrite a run of bytes with one byte or with random ones."""
    data = bytearray(content(path))
    place, count = position(rng, data), rng.choice((1, 4, 8, 64, 4096))
    count = min(count, len(data) - place)
    new = rng.choice((bytes(count), b"\xff" * count, b"9" * count, rng.randbytes(count)))
    data[place : place + count] = new
    path.write_bytes(data)
    return f"{count} bytes at {place}"


def truncate(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Cut the end off."""
    data = content(path)
    kept = position(rng, data)
    path.write_bytes(data[:kept])
    return f"to {kept} of {len(data)} bytes"


def empty(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Leave no byte."""
    if not path.is_file():
        raise Unsuitable
    path.write_bytes(b"")
    return "no bytes"


def extend(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Append bytes: zeros, random ones, a copy of its own."""
    data = content(path)
    count = rng.choice((1, 8, 1000))
    path.write_bytes(data + rng.choice((bytes(count), rng.randbytes(count), data, b"\n")))
    return f"from {len(data)} to {path.stat().st_size} bytes"


def cut_out(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Take a run of bytes out, or put it in twice."""
    data = content(path)
    place, count = position(rng, data), rng.choice((1, 8, 100))
    if rng.random() < 0.5:
        path.write_bytes(data[:place] + data[place + count :])
        return f"{count} bytes at {place}"
    path.write_bytes(data[: place + count] + data[place:])
    return f"{count} bytes at {place} stand twice"


def splice(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """The front of this file and the back of another."""
    data, other = content(path), content(_other(rng, others))
    place, start = position(rng, data), position(rng, other)
    path.write_bytes(data[:place] + other[start:])
    return f"{place} bytes, then another file's from {start}"


def swap(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Another file's content."""
    other = _other(rng, others)
    path.write_bytes(content(other))
    return f"content of {shown(other.name)}"


def of_another_run(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """The content of the same file of another fold or another model."""
    name = path.name.translate(str.maketrans("01", "10")) if "fold_" in path.name else path.name
    fitting = [one for one in others if one.name in (name, path.name) and one != path]
    other = _other(rng, fitting)
    path.write_bytes(content(other))
    return f"content of {shown('/'.join(other.parts[-3:]))}"


def nonsense(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Something else altogether."""
    if not path.is_file():
        raise Unsuitable
    choices = (
        b"hello\n",
        b"\x00" * 100,
        b"{}",
        b"[]",
        b"null",
        b"\xff\xfe",
        b"PK\x05\x06",
        b"PAR1",
    )
    data = rng.choice((*choices, b"PK\x05\x06" + bytes(18), b"PAR1" * 3, rng.randbytes(300)))
    path.write_bytes(data)
    return shown(data)


def delete(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Nothing there."""
    _clear(path)
    return "deleted"


def folder(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A folder, empty or not."""
    _clear(path)
    path.mkdir()
    if rng.random() < 0.5:
        (path / "file").write_text("x")
        return "a folder with a file"
    return "an empty folder"


def pipe(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A named pipe or a socket, which nobody writes to."""
    _clear(path)
    if rng.random() < 0.7:
        os.mkfifo(path)
        return "a pipe"
    here = Path.cwd()
    os.chdir(path.parent)  # the address of a socket is short
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(path.name[:90])
    os.chdir(here)
    return "a socket"


def link(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A link to nothing, to itself, to a device without end, to folders.

    None of them can be written into: what is written there would be lost, or be found elsewhere.
    """
    _clear(path)
    targets = ("nowhere", path.name, "/dev/zero", "/dev/null", "/dev/full", "/proc", "/proc/self")
    target = rng.choice(targets)
    path.symlink_to(target)
    return f"a link to {target}"


def sparse(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Far more bytes than memory has, all of them zero."""
    if not path.is_file():
        raise Unsuitable
    os.truncate(path, SPARSE_BYTES)
    return f"{SPARSE_BYTES} bytes"


def replace_parent(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """The folder that it lies in is something else."""
    root = (path.parent / "outputs").is_dir()  # of the tree, which has to stay
    if root or path.parent.name in ("data", "outputs") or not path.parent.is_dir():
        raise Unsuitable
    done = rng.choice((delete, nonsense, pipe, link))
    if done is nonsense:
        _clear(path.parent)
        path.parent.write_text("x")
        return "its folder is a file"
    return f"its folder: {done(path.parent, rng, others)}"


def rename(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """An odd name, with the same suffix."""
    if not path.is_file():
        raise Unsuitable
    name = os.fsdecode(rng.choice(NAMES)) + path.suffix
    path.rename(path.with_name(name))
    return f"to {shown(name)}"


def stranger(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A file of an odd name beside it, or a folder like its own."""
    if not path.is_file():
        raise Unsuitable
    if path.parent.name.startswith("fold_"):
        name = rng.choice(FOLD_NAMES)
        shutil.copytree(path.parent, path.parent.with_name(name), dirs_exist_ok=True)
        return f"beside its folder {shown(name)}"
    odd = FOLD_NAMES if "fold_" in path.name else [os.fsdecode(one) for one in NAMES]
    name = rng.choice(odd) + path.suffix
    shutil.copyfile(path, path.with_name(name))
    return f"beside it {shown(name)}"


CONTENTS = (flip_bits, flip_bits, overwrite, truncate, empty, extend, cut_out, splice, swap)
CONTENTS += (of_another_run, of_another_run)
CONTENTS += (nonsense, sparse, rename, stranger)
PLACES = (delete, folder, pipe, link, replace_parent)


def _other(rng: Random, others: Sequence[Path]) -> Path:
    if not others:
        raise Unsuitable
    return rng.choice(others)


def _clear(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    path.parent.mkdir(parents=True, exist_ok=True)
