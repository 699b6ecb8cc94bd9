"""One writer at a time: who waits, what a kill leaves, what happens where there are no locks."""

from __future__ import annotations

import errno
import fcntl
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from lib.files import locks
from lib.files.artifacts import atomic_file
from lib.files.locks import only_on, only_writer
from tests.stages import REPOSITORY, environment

# Holds the lock until it is killed, or has read a line; says when it has it and whether it waited.
HOLDER = """
import sys
from pathlib import Path
from lib.files.locks import only_writer
with only_writer(Path(sys.argv[1]), Path(sys.argv[1], "model", "fold_0")) as waited:
    print(waited, flush=True)
    sys.stdin.readline()
"""


def holder(outputs: Path) -> subprocess.Popen:
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(outputs)],
        **{"stdin": pipe, "stdout": pipe, "stderr": pipe, "text": True},
        **{"cwd": REPOSITORY, "env": environment()},
    )


def lock_files(outputs: Path) -> list[str]:
    return [path.name for path in (outputs / ".make").iterdir()]


@pytest.mark.parametrize("end", ["kill", "end"])
def test_the_second_waits_and_says_for_whom(tmp_path, end):
    first = holder(tmp_path)
    assert first.stdout.readline() == "False\n"
    second = holder(tmp_path)
    said = second.stderr.readline()
    since = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d"
    assert re.fullmatch(
        re.escape(f"{tmp_path}/model/fold_0: process {first.pid} has been writing it since ")
        + since
        + "; waiting for that to end\n",
        said,
    )
    if end == "kill":
        first.kill()
    else:
        first.communicate("\n")
    assert second.stdout.readline() == "True\n"
    assert lock_files(tmp_path) == ["model.fold_0.lock"]
    out, err = second.communicate("\n")
    assert (out, err, second.returncode) == ("", "", 0)
    assert lock_files(tmp_path) == []
    first.communicate()


def test_the_second_takes_another_core_or_waits(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(locks, "CORES", tmp_path)
    monkeypatch.setattr(locks.time, "sleep", lambda _: first.close())
    for core in range(2):
        (tmp_path / f"cpu{core}").mkdir()
    first = ExitStack()
    assert first.enter_context(only_on([1, 0])) == [1]
    with only_on([1, 0]) as cores:
        assert cores == [0]
    assert capsys.readouterr().err == ""
    with only_on([1, 0], count=2) as cores:
        assert cores == [1, 0]
    said = "core 1, 0: another search measures there; waiting for that to end\n"
    assert capsys.readouterr().err == said


@pytest.mark.parametrize("reason", [errno.ENOLCK, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_worked_on_without(tmp_path, monkeypatch, reason):
    def refused(*_: object) -> None:
        raise OSError(reason, "no locks")

    monkeypatch.setattr(fcntl, "flock", refused)
    with only_writer(tmp_path, tmp_path / "a") as waited, atomic_file(tmp_path / "a") as temporary:
        temporary.write_text("whole")
    assert not waited
    assert (tmp_path / "a").read_text() == "whole"


def test_the_lock_is_never_what_a_stage_fails_for(tmp_path):
    """It fails for what it writes, by name."""
    (tmp_path / "outputs").touch()
    with only_writer(tmp_path / "outputs", tmp_path / "outputs" / "a") as waited:
        assert not waited


def test_of_two_writers_of_a_file_each_keeps_what_it_has_begun(tmp_path):
    with atomic_file(tmp_path / "a") as one:
        one.write_text("1")
        with atomic_file(tmp_path / "a") as other:
            other.write_text("2")
        assert (tmp_path / "a").read_text() == "2"
    assert (tmp_path / "a").read_text() == "1"
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
