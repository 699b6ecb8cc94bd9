"""Whole or absent: exceptions, kills in the middle, leftovers, fingerprints."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from lib.files.artifacts import (
    atomic_file,
    atomic_files,
    atomic_folder,
    check_place,
    fingerprint_files,
    read_json,
    remove_leftovers,
    write_json,
)
from tests.stages import REPOSITORY, environment


def listing(folder) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_an_exception_leaves_the_old_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), atomic_file(path) as temporary:
        temporary.write_text("ne")
        raise RuntimeError
    assert path.read_text() == "old"
    assert listing(tmp_path) == ["file.txt"]


def test_a_folder_takes_the_place_of_the_old_one(tmp_path):
    path = tmp_path / "cache"
    for text in ("old", "new"):
        with atomic_folder(path) as temporary:
            (temporary / f"{text}.txt").write_text(text)
    assert listing(path) == ["new.txt"]
    assert listing(tmp_path) == ["cache"]


@pytest.mark.parametrize("atomic", [atomic_file, atomic_folder])
def test_what_cannot_be_written_is_told_of_by_its_final_name(tmp_path, atomic):
    path = tmp_path / "result"
    with pytest.raises(OSError) as raised, atomic(path):
        raise OSError(errno.ENOSPC, "No space left on device")  # a write does not name its file
    assert raised.value.filename == str(path)
    with pytest.raises(OSError) as raised, atomic(path) as temporary:
        (temporary / "below" / "absent").write_text("")
    assert raised.value.filename == str(path)
    other = tmp_path / "other"
    with pytest.raises(OSError) as raised, atomic(path):
        other.read_text()
    assert raised.value.filename == str(other)  # what is read meanwhile keeps its name
    assert listing(tmp_path) == []


def test_files_appear_together(tmp_path):
    paths = [tmp_path / "a" / "one.txt", tmp_path / "b" / "two.json"]
    with atomic_files(*paths) as (one, two):
        one.write_text("one")
        write_json(two, 2)
        assert listing(tmp_path / "b") == [two.name]  # a second name would be left by a kill
        with atomic_file(two) as same:
            assert same == two
        assert not any(path.exists() for path in paths)
    assert [path.read_text() for path in paths] == ["one", "2\n"]
    assert listing(tmp_path / "a") + listing(tmp_path / "b") == ["one.txt", "two.json"]


@pytest.mark.parametrize("bad", [0, 1, 2])
@pytest.mark.parametrize("when", ["before", "while"])
def test_no_file_appears_if_one_cannot(tmp_path, bad, when):
    paths = [tmp_path / name for name in "abc"]
    for path in paths:
        path.write_text("old")
    if when == "before":
        paths[bad].unlink()
        paths[bad].mkdir()
    with pytest.raises(OSError) as raised, atomic_files(*paths) as temporary:
        for number, path in enumerate(temporary):
            if number == bad:
                raise OSError(errno.ENOSPC, "No space left on device", str(path))
            path.write_text("new")
    assert raised.value.filename == str(paths[bad])
    kept = [path.read_text() for path in paths if path.is_file()]
    assert kept == ["old"] * (3 if when == "while" else 2)
    assert listing(tmp_path) == ["a", "b", "c"]


KILLED = """
import os, signal
from lib.files.artifacts import atomic_file, atomic_folder
with {function}({path!r}) as temporary:
    {write}
    os.kill(os.getpid(), signal.SIGKILL)
"""


def killed(function, path, write):
    program = KILLED.format(function=function, path=str(path), write=write)
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, env=environment())
    assert done.returncode == -9


def test_a_kill_in_the_middle_of_a_file(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    killed("atomic_file", path, "temporary.write_text('ne')")
    assert path.read_text() == "old"
    assert len(listing(tmp_path)) == 2  # the rest of it, under a temporary name
    assert listing(tmp_path)[0].startswith(".partial-")
    remove_leftovers(path)
    assert listing(tmp_path) == ["file.txt"]


def test_leftovers_of_others_stay(tmp_path):
    ours, others = "0123456789ab", "ba9876543210"
    names = ["file.txt", "other.txt", f".partial-{others}-other.txt", ".partial-file.txt.keep"]
    names += [f".partial-{others}-my-file.txt", ".partial-abc-file.txt"]
    for name in (*names, f".partial-{ours}-file.txt"):
        (tmp_path / name).write_text("")
    (tmp_path / f".partial-{others}-file.txt").mkdir()
    remove_leftovers(tmp_path / "file.txt")
    assert listing(tmp_path) == sorted(names)


def test_a_place_is_checked_while_another_process_clears_it(tmp_path, monkeypatch):
    """That one writes there, and takes the probe for what a killed run has left."""
    path, touch = tmp_path / "submission.csv", Path.touch

    def touched(probe: Path) -> None:
        touch(probe)
        remove_leftovers(path)

    monkeypatch.setattr(Path, "touch", touched)
    check_place(path)
    assert not list(tmp_path.iterdir())


def test_json(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"b": [1, 2.5, None], "a": "ä"})
    assert read_json(path) == {"a": "ä", "b": [1, 2.5, None]}
    assert path.read_text().index('"a"') < path.read_text().index('"b"')
    with pytest.raises(TypeError):
        write_json(path, {"b": object()})
    assert read_json(path)["a"] == "ä"


def test_fingerprints_of_files(tmp_path):
    one, two = tmp_path / "one", tmp_path / "sub" / "two"
    two.parent.mkdir()
    one.write_text("1"), two.write_text("2")
    first = fingerprint_files([one, two], tmp_path)
    assert len(first) == 64
    assert fingerprint_files([two, one], tmp_path) == first
    assert fingerprint_files([one], tmp_path) != first
    two.write_text("3")
    assert fingerprint_files([one, two], tmp_path) != first
    two.write_text("2")
    assert fingerprint_files([one, two], tmp_path) == first
    two.rename(tmp_path / "sub" / "three")
    assert fingerprint_files([one, tmp_path / "sub" / "three"], tmp_path) != first
