"""Some hundred cases end with success or with one line; and the attacker finds what is planted."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess

import pytest

from tests.attack import runner
from tests.attack.commands import TARGETS, Command, all_commands
from tests.attack.judging import GONE, ONE_LINE, SUCCESS, WORSE, Result, judge
from tests.attack.snapshot import snapshot
from tests.interpreter import python
from tests.stages import LONGEST, REPOSITORY, environment

COUNT = 160
GOOD = runner.Outcome(code=0, stdout="", stderr="", seconds=0.1, peak=10**8, timed_out=False)
REFUSED = dataclasses.replace(GOOD, code=2, stderr="error: a: b: found c, expected d\n")
ANY = Result({}, None)
COMMAND = Command("it", ("x.py",), {}, writes=("out/*",))


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The folder of the undamaged tree, which the first attack makes."""
    return tmp_path_factory.mktemp("attack") / "world"


def attack(world, *flags: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [python(), "-m", "tests.attack", "--world", world, *map(str, flags)],
        cwd=REPOSITORY,
        env=environment() | runner.ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )


def test_hostile_files_and_flags_end_in_one_line_at_worst(world):
    done = attack(world, "--count", COUNT, "--seed", 0, "--jobs", 2)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    rows = {row.split()[0]: row.split()[1:] for row in done.stdout.splitlines()}
    success, one_line, worse = (int(number) for number in rows["all"])
    assert (success + one_line, worse) == (COUNT, 0)
    assert min(success, one_line) > COUNT / 10
    assert set(rows) >= set(TARGETS)
    assert all(sum(map(int, rows[kind])) > 5 for kind in TARGETS)


def test_a_case_is_run_again(world):
    done = attack(world, "--case", 7, "--seed", 3, "--only", "record")
    assert done.stderr == ""
    line = done.stdout.splitlines()[0]
    assert line.endswith("; python -m tests.attack --seed 3 --case 7 --only cache")
    assert re.match(r"\[record\] .*: outputs/", line)


@pytest.fixture
def tree(tmp_path):
    folder = tmp_path / "tree"
    (folder / "out").mkdir(parents=True)
    (folder / "in.txt").write_text("in")
    (folder / "out" / "a").write_text("a")
    return folder


def verdict(tree, change=lambda: None, outcome=GOOD, kinds=frozenset({"raw"}), result=ANY):
    before = snapshot(tree)
    change()
    return judge(COMMAND, outcome, kinds, before, snapshot(tree), result)


def test_what_is_as_it_must_be(tree):
    assert verdict(tree).outcome == SUCCESS
    assert verdict(tree, outcome=REFUSED).outcome == ONE_LINE
    assert verdict(tree, lambda: (tree / "out" / "b").write_text("b")).outcome == SUCCESS
    remarks = "skipped: x\nwarning: y\n"
    assert verdict(tree, outcome=dataclasses.replace(GOOD, stderr=remarks)).outcome == SUCCESS
    both = dataclasses.replace(REFUSED, stderr=remarks + REFUSED.stderr)
    assert verdict(tree, outcome=both).outcome == ONE_LINE
    by_make = dataclasses.replace(REFUSED, stderr="Makefile:3: *** A=;: must be a word.  Stop.\n")
    assert verdict(tree, outcome=by_make).outcome == ONE_LINE


@pytest.mark.parametrize(
    "changed",
    [
        {"code": 1, "stderr": "Traceback\nKeyError: 'x'\n"},
        {"code": 2},
        {"code": 2, "stderr": "usage: x\nerror: y\n"},
        {"code": 2, "stderr": "error: a\x1b[31mb\n"},
        {"code": 2, "stderr": "KeyError: x\n"},
        {"code": 0, "stderr": "x.py:1: RuntimeWarning: y\n"},
        {"code": -9, "timed_out": True},
        {"code": -11},
        {"peak": 10**10},
    ],
)
def test_how_a_command_must_not_end(tree, changed):
    found = verdict(tree, outcome=dataclasses.replace(GOOD, **changed))
    assert found.outcome == WORSE
    assert found.why


@pytest.mark.parametrize("outcome", [GOOD, REFUSED])
@pytest.mark.parametrize(
    "change",
    [
        lambda tree: (tree / "in.txt").write_text("other"),
        lambda tree: (tree / "in.txt").unlink(),
        lambda tree: (tree / "in.txt").chmod(0o600),
        lambda tree: (tree / "new.txt").write_text("other"),
    ],
)
def test_files_that_a_command_must_not_change(tree, outcome, change):
    assert verdict(tree, lambda: change(tree), outcome).outcome == WORSE


def test_a_command_that_fails_changes_nothing(tree):
    assert verdict(tree, lambda: (tree / "out" / "a").write_text("b"), REFUSED).outcome == WORSE


def test_another_result_of_damaged_results_is_found(tree):
    wanted = Result({"out/a": snapshot(tree)["out/a"]}, "said")
    said = dataclasses.replace(GOOD, stdout="said")
    assert verdict(tree, kinds={"outputs"}, result=wanted, outcome=said).outcome == SUCCESS
    assert (
        verdict(tree, kinds={"outputs"}, result=wanted).why == "silently wrong: says something else"
    )
    assert verdict(tree, kinds={"outputs", GONE}, result=wanted).outcome == SUCCESS
    (tree / "out" / "a").write_text("other")
    assert verdict(tree, kinds={"outputs"}, result=wanted, outcome=said).why.endswith("out/a")
    assert verdict(tree, kinds={"raw"}, result=wanted, outcome=said).outcome == SUCCESS


SCRIPTS = {
    "raise KeyError('x')": (1, "KeyError: 'x'"),
    "import sys; sys.exit('one line')": (1, "one line"),
    "import os; os.kill(os.getpid(), 9)": (-9, ""),
    "x = bytes(1 << 40)": (1, "MemoryError"),
    "print(open(0).read())": (0, ""),
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_how_a_command_ended_is_seen(tree, script):
    (tree / "script.py").write_text(script)
    code, last = SCRIPTS[script]
    outcome = runner.run([str(tree / "script.py")], tree)
    assert outcome.code == code
    assert (outcome.stderr.splitlines() or [""])[-1] == last


def test_a_command_without_end_is_killed_with_all_it_started(tree, monkeypatch):
    monkeypatch.setattr(runner, "SECONDS", 0.5)
    slept = f"77.{os.getpid()}"  # by nobody else
    (tree / "script.py").write_text(f"import subprocess; subprocess.run(['sleep', '{slept}'])")
    outcome = runner.run([str(tree / "script.py")], tree)
    assert outcome.timed_out
    assert outcome.seconds < 10
    assert subprocess.run(["pgrep", "-f", f"sleep {slept}"]).returncode == 1


def test_every_kind_is_read_by_a_command():
    commands = all_commands().values()
    read = {kind for one in commands for kind in one.reads} | {"outputs", "disk", "flags", "make"}
    assert read == set(TARGETS)
