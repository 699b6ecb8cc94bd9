"""Files that others made: regular ones only, at once or not at all, and who is to blame."""

from __future__ import annotations

import errno
import os
import pickle
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lib.files import regular, tensor_file
from lib.files.artifacts import fingerprint_files, read_json
from lib.files.errors import DataError
from lib.files.parquet import read_parquet
from lib.files.regular import UnreadableError, open_regular, read_regular
from lib.scoring.submission import read_entries
from lib.tpugraphs.messages import detect_kind
from lib.tpugraphs.npz import read_layout, read_tile, write_layout
from lib.tpugraphs.program import Program, read_program, with_candidates
from lib.tpugraphs.protobuf import read_protobuf
from lib.tpugraphs.roots import DataRoot
from tests.tpugraphs.builders import layout_graph

SECONDS = 5


def read_candidates(path: Path) -> None:
    with_candidates(Program(path, layout_graph(), None), path)


READERS = {
    "npz": (open_regular, read_layout, read_tile, read_candidates),
    "pb": (detect_kind, lambda path: read_protobuf(path, "tile"), read_program),
    "jsonl": (read_candidates, lambda path: read_regular(path, 9)),
    "any": (lambda path: fingerprint_files([path], path.parent),),
}
CASES = [(suffix, read) for suffix, readers in READERS.items() for read in readers]


def read_table(path: Path) -> None:
    read_parquet(path, {}, "write it again")


def measured(path: Path) -> None:
    path.rename(path.with_name("measurements.parquet"))
    DataRoot(path.parent, path.parent).measurements("layout-xla-default")


# These say what they expect of the file, and what to do if it is not there.
TELLING = (read_json, tensor_file.load, tensor_file.read_metadata, read_table)
OTHERS = (read_entries, measured)


@contextmanager
def at_once() -> Iterator[None]:
    """Fail if the block takes seconds, also if it waits for the operating system."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def make(kind: str, path: Path) -> None:
    """Something that has a file's name and is none."""
    if kind == "a pipe":
        os.mkfifo(path)
    elif kind == "a device":
        path.symlink_to("/dev/zero")
    elif kind == "a folder":
        path.mkdir()
    else:
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path.relative_to(Path.cwd())))


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder", "a socket"])
@pytest.mark.parametrize(("suffix", "read"), CASES)
def test_only_regular_files_are_read(tmp_path, monkeypatch, kind, suffix, read):
    monkeypatch.chdir(tmp_path)  # a socket's path must be short
    path = tmp_path / f"x.{suffix}"
    make(kind, path)
    with at_once(), pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: file: found {kind}, expected a regular file"
    assert not isinstance(caught.value, UnreadableError)


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder", "a socket"])
@pytest.mark.parametrize("read", [*TELLING, *OTHERS])
def test_nothing_waits_for_a_pipe(tmp_path, monkeypatch, kind, read):
    monkeypatch.chdir(tmp_path)
    make(kind, tmp_path / "x")
    with at_once(), pytest.raises(DataError, match=f": found {kind}, expected "):
        read(tmp_path / "x")


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE, errno.ENOENT, errno.EIO])
@pytest.mark.parametrize(("suffix", "read"), CASES)
def test_what_the_machine_refuses_says_nothing_of_the_content(
    tmp_path, monkeypatch, number, suffix, read
):
    path = tmp_path / f"x.{suffix}"
    path.write_bytes(b"PK")

    def refused(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(UnreadableError) as caught:
        read(path)
    expected = f"{path}: {os.strerror(number)}; expected a readable file"
    assert str(caught.value) == expected
    assert str(pickle.loads(pickle.dumps(caught.value))) == expected


@pytest.mark.parametrize("good", range(3))
def test_a_disk_that_fails_in_the_middle_is_not_the_content(tmp_path, monkeypatch, good):
    path = tmp_path / "x.npz"
    write_layout(path, layout_graph())
    left, whole = [good], regular._File.readinto

    def failing(self, buffer):
        left[0] -= 1
        if left[0] < 0:
            raise regular.unreadable(path, OSError(errno.EIO, "Input/output error"))
        return whole(self, buffer)

    monkeypatch.setattr(regular._File, "readinto", failing)
    with pytest.raises(UnreadableError, match="Input/output error"):
        read_layout(path)


def test_no_more_than_is_allowed_is_read(tmp_path):
    path = tmp_path / "sparse.pb"
    with path.open("wb") as file:
        file.truncate(2**40)
    for read in (detect_kind, read_protobuf, read_program):
        with at_once(), pytest.raises(DataError, match="found 1099511627776 bytes, expected at"):
            read(path)
    (tmp_path / "y").write_bytes(b"123")
    assert read_regular(tmp_path / "y", 3) == b"123"
    with pytest.raises(DataError, match="y: file: found 3 bytes, expected at most 2"):
        read_regular(tmp_path / "y", 2)
