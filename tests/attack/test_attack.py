"""Some dozen cases end with success or with one line; and the attacker finds what is planted."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.attack.__main__ import COMMANDS, snapshot, wrong_ending
from tests.stages import LONGEST, REPOSITORY, environment

COUNT = 36


def test_hostile_files_and_flags_end_in_one_line_at_worst():
    done = subprocess.run(
        [sys.executable, "-m", "tests.attack", "--count", str(COUNT)],
        cwd=REPOSITORY,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    *_, all_of_them = done.stdout.splitlines()
    success, one_line, worse = (int(word) for word in all_of_them.split() if word.isdecimal())
    assert (success + one_line, worse) == (COUNT, 0)
    assert min(success, one_line) > COUNT / 10
    assert all(f"\n{kind} " in f"\n{done.stdout}" for kind in COMMANDS)


@pytest.mark.parametrize(
    ("code", "stderr", "good"),
    [
        (0, "", True),
        (0, "skipped: x\nwarning: y\n", True),
        (2, "skipped: x\nerror: a: b: found c, expected d\n", True),
        (1, "Traceback\nKeyError: 'x'\n", False),
        (2, "", False),
        (2, "usage: x\nerror: y\n", False),
        (2, "error: a\x1b[31mb\n", False),
        (2, "KeyError: x\n", False),
        (0, "x.py:1: RuntimeWarning: y\n", False),
        (-11, "", False),
    ],
)
def test_how_a_command_may_end(code, stderr, good):
    done = subprocess.CompletedProcess([], code, "", stderr)
    assert (wrong_ending(done) == "") == good


def test_any_change_of_a_file_is_seen(tmp_path):
    path = tmp_path / "a" / "b"
    path.parent.mkdir()
    path.write_text("in")
    before = snapshot(tmp_path)
    assert before == snapshot(tmp_path)
    path.write_text("inside")
    assert snapshot(tmp_path) != before
    path.unlink()
    assert snapshot(tmp_path) == {}
