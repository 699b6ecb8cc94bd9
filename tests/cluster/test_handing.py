"""A command that is handed over: its exit code, what is said of it, lost ones, cancelled ones."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from lib.cluster.executors import Lost
from lib.cluster.handing import ATTEMPTS, Hand
from lib.cluster.task import Task
from tests.stages import LONGEST, REPOSITORY

HAND = REPOSITORY / "lib" / "cluster" / "hand.py"


class Threads:
    """An executor of this process; those of its tasks that are in ``losing`` are lost once."""

    jobs = 2

    def __init__(self) -> None:
        self.pool, self.tasks = ThreadPoolExecutor(4), list[Task]()
        self.losing, self.cancelled = set[str](), list[Future]()

    def submit(self, task: Task) -> Future:
        self.tasks.append(task)
        return self.pool.submit(self.run, task)

    def run(self, task: Task) -> int:
        code = task()
        if task.target in self.losing:
            self.losing.remove(task.target)
            raise Lost("the node is gone")
        return code

    def finished(self, handle: Future) -> bool:
        return handle.done()

    def result(self, handle: Future) -> int:
        return handle.result()

    def cancel(self, handle: Future) -> None:
        self.cancelled.append(handle)

    def close(self) -> None:
        self.pool.shutdown()


class Heard(Hand):
    """Notes what it has told, for those who wait: who looks at what is captured may lose a line."""

    def __init__(self, *about: object) -> None:
        super().__init__(*about)
        self.told: list[str] = []

    def say(self, state: str, *about: object) -> None:
        super().say(state, *about)
        self.told.append(state)


@pytest.fixture
def hand(tmp_path, monkeypatch) -> Iterator[Heard]:
    monkeypatch.setattr("lib.cluster.handing.POLL", 0.02)
    with Heard(tmp_path / "socket", Threads(), tmp_path / "outputs") as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()
        server.executor.close()


def start(hand: Hand, target: str, script: str, **environment: str) -> subprocess.Popen:
    """Hand a line of shell over, as make does."""
    words = [sys.executable, "-SE", HAND, hand.server_address, "2", "0", hand.outputs / target]
    return subprocess.Popen([*words, "sh", "-c", script], env=environment)


def code_of(hand: Hand, target: str, script: str, **environment: str) -> int:
    return start(hand, target, script, **environment).wait(timeout=LONGEST)


def waiting(folder: Path) -> str:
    """A line of shell that waits until ``go`` is in a folder."""
    return f"while [ ! -e {folder}/go ]; do sleep 0.05; done"


def states(said: str) -> list[str]:
    return [line.split()[0] for line in said.splitlines()]


def test_a_command_runs_here_and_its_last_line_is_told(hand, tmp_path, capsys):
    script = f"pwd >{tmp_path}/where; echo one; echo 'train: fold 0: validation tau 0.7'"
    task = start(hand, "a@gst/fold_0/metrics.json", f"{waiting(tmp_path)}; {script}")
    while not hand.told:
        time.sleep(0.02)
    (tmp_path / "go").touch()
    assert task.wait(timeout=LONGEST) == 0
    assert Path((tmp_path / "where").read_text().strip()) == Path.cwd()
    running, done = capsys.readouterr().out.splitlines()
    assert running.split()[0] == "running"
    assert running.split()[2] == "a@gst/fold_0/metrics.json"
    assert done.split()[0] == "done"
    assert done.endswith("; train: fold 0: validation tau 0.7")
    (log,) = (hand.outputs / ".make").rglob("*.log")
    assert log.parent.name == "a@gst.fold_0.metrics.json.task"
    assert log.read_text().startswith("one\n")


def test_an_error_is_one_line_and_make_gets_its_code(hand, capsys):
    script = "echo started; echo 'error: no such file: x' >&2; exit 2"
    assert code_of(hand, "a", script) == 2
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("failed")
    assert "a: error: no such file: x (all of it: " in last


@pytest.mark.parametrize("how", ["killed", "lost"])
def test_a_lost_task_runs_again_with_a_log_of_its_own(hand, tmp_path, capsys, how):
    script = f"echo again >>{tmp_path}/runs"
    if how == "killed":
        script += f"; [ $(wc -l <{tmp_path}/runs) = 2 ] || kill -9 $$"
    else:
        hand.executor.losing.add("a")
    assert code_of(hand, "a", script) == 0
    assert (tmp_path / "runs").read_text() == "again\n" * 2
    said = capsys.readouterr().out
    assert [state for state in states(said) if state != "running"] == ["lost", "done"]
    assert ("killed by signal 9" if how == "killed" else "the node is gone") in said
    assert [task.attempt for task in hand.executor.tasks] == [1, 2]
    assert len(list((hand.outputs / ".make" / "a.task").iterdir())) == 2


def test_a_task_that_is_lost_every_time_is_given_up(hand, capsys):
    assert code_of(hand, "a", "kill -9 $$") == 1
    assert len(hand.executor.tasks) == ATTEMPTS
    assert "given up" in capsys.readouterr().out.splitlines()[-1]


def test_an_engine_that_fails_is_told_as_the_tasks_failure(hand, capsys, monkeypatch):
    monkeypatch.setattr(hand.executor, "submit", lambda task: 1 / 0)
    assert code_of(hand, "a", "true") == 2
    assert "division by zero" in capsys.readouterr().out


def test_who_is_interrupted_cancels_and_others_go_on(hand, tmp_path, capsys):
    one, other = (start(hand, name, waiting(tmp_path)) for name in "ab")
    while len(hand.executor.tasks) < 2:
        time.sleep(0.02)
    one.terminate()
    while not hand.executor.cancelled:
        time.sleep(0.02)
    assert "cancelled" not in hand.told, "it has not ended yet"
    (tmp_path / "go").touch()
    assert other.wait(timeout=LONGEST) == 0
    while "cancelled" not in hand.told:
        time.sleep(0.02)
    said = capsys.readouterr().out
    assert sorted(state for state in states(said) if state != "running") == ["cancelled", "done"]
    assert next(one for one in said.splitlines() if one[:9] == "cancelled").split()[2] == "a:"


def test_two_tasks_write_one_file_one_after_the_other(hand, tmp_path):
    first = start(hand, "a", f"{waiting(tmp_path)}; touch {tmp_path}/first")
    while not hand.executor.tasks:
        time.sleep(0.02)
    second = start(hand, "a", f"mv {tmp_path}/first {tmp_path}/second")
    other = start(hand, "b", "true")
    assert other.wait(timeout=LONGEST) == 0, "it waits for nobody"
    assert len(hand.executor.tasks) == 2
    (tmp_path / "go").touch()
    assert [one.wait(timeout=LONGEST) for one in (first, second)] == [0, 0]
    assert (tmp_path / "second").exists()


def test_what_a_stage_reads_of_the_environment_goes_along(hand, tmp_path, monkeypatch):
    monkeypatch.setenv("OF_THE_NODE", "kept")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    script = f"env >{tmp_path}/seen"
    given = {"NO_COLOR": "x y", "WANDB_MODE": "offline", "OF_MAKE_ALONE": "left"}
    assert code_of(hand, "a", script, **given) == 0
    seen = dict(line.split("=", 1) for line in (tmp_path / "seen").read_text().splitlines())
    assert (seen["NO_COLOR"], seen["WANDB_MODE"]) == ("x y", "offline")
    assert seen["OF_THE_NODE"] == "kept"
    assert "OF_MAKE_ALONE" not in seen
    assert seen["CUDA_VISIBLE_DEVICES"] == "", "a GPU that no one has set aside for it"


def test_nobody_to_hand_to_is_an_error(tmp_path):
    line = [sys.executable, "-SE", HAND, tmp_path / "none", "1", "0", "a", "true"]
    assert subprocess.run(line).returncode == 1
