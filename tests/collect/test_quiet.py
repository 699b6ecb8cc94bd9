"""Others are kept off the timing core, and put back: in the end, and after a kill."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lib.collect.quiet import MovedProcesses, TimingCore

CORES = os.sched_getaffinity(0)
CORE = max(CORES)
pytestmark = pytest.mark.skipif(len(CORES) < 2, reason="needs two cores")

# A process of a name that nothing else has, so that the tests move nobody else's.
NAME = f"quiet{os.getpid()}"[:15]
BUSY = f"""
import subprocess, sys, threading
open("/proc/self/comm", "w").write("{NAME}")
print("ready", flush=True)
for line in sys.stdin:
    if line == "thread\\n":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    if line == "child\\n":
        subprocess.Popen(["sleep", "infinity"])
    print("done", flush=True)
"""


class Neighbour:
    """Another process that runs on all cores."""

    def __init__(self) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.process = subprocess.Popen([sys.executable, "-c", BUSY], **pipes)
        self.process.stdout.readline()

    def start(self, what: str) -> None:
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        self.process.stdout.readline()

    def cores(self) -> list[set[int]]:
        """Of every thread, and of every child."""
        folder = Path(f"/proc/{self.process.pid}/task")
        threads = sorted(int(p.name) for p in folder.iterdir())
        children = (folder / str(self.process.pid) / "children").read_text().split()
        return [os.sched_getaffinity(task) for task in [*threads, *map(int, children)]]


@contextmanager
def neighbour() -> Iterator[Neighbour]:
    one = Neighbour()
    try:
        yield one
    finally:
        children = Path(f"/proc/{one.process.pid}/task/{one.process.pid}/children").read_text()
        for child in map(int, children.split()):
            os.kill(child, signal.SIGKILL)
        one.process.kill()
        one.process.wait()


@pytest.fixture(autouse=True)
def unnamed() -> Iterator[None]:
    """A collector that measures on this machine meanwhile may move pythons, and not this one."""
    name = Path("/proc/self/comm")
    before = name.read_text()
    name.write_text("tests")
    yield
    name.write_text(before)


def eventually(holds: Callable[[], bool]) -> None:
    while not holds():
        time.sleep(0.01)


def test_threads_and_children_come_back():
    with neighbour() as one:
        one.start("thread")
        others = MovedProcesses(CORE, [NAME], keep=[])
        others.move()
        assert one.cores() == [CORES - {CORE}] * 2
        one.start("thread")
        one.start("child")
        others.move()
        assert one.cores() == [CORES - {CORE}] * 4
        others.restore()
        assert one.cores() == [CORES] * 4


def test_a_process_that_was_pinned_elsewhere_stays_there():
    with neighbour() as one:
        os.sched_setaffinity(one.process.pid, {min(CORES)})
        others = MovedProcesses(CORE, [NAME], keep=[])
        others.move()
        others.restore()
        assert one.cores() == [{min(CORES)}]


def test_children_of_before_are_left_alone():
    with neighbour() as one:
        one.start("child")
        child = int(Path(f"/proc/{one.process.pid}/task/{one.process.pid}/children").read_text())
        os.sched_setaffinity(child, {min(CORES)})
        others = MovedProcesses(CORE, [NAME], keep=[])
        others.move()
        others.restore()
        assert one.cores() == [CORES, {min(CORES)}]


def test_other_names_and_kept_processes_are_left_alone():
    with neighbour() as one:
        for others in (
            MovedProcesses(CORE, ["nobody"], []),
            MovedProcesses(CORE, [NAME], [one.process.pid]),
        ):
            others.move()
            assert one.cores() == [CORES]


def measuring(clear: str) -> str:
    return (
        "import os, sys; from lib.collect.quiet import TimingCore\n"
        f"core = TimingCore({CORE}, {sorted(CORES)}, clear={clear!r})\n"
        "with core.calm():\n    print(*os.sched_getaffinity(0), flush=True); sys.stdin.read()\n"
        "print(*os.sched_getaffinity(0), flush=True)"
    )


def test_the_watcher_puts_everything_back_after_a_kill():
    with neighbour() as one:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        command = [sys.executable, "-c", measuring(NAME)]
        process = subprocess.Popen(command, start_new_session=True, **pipes)
        assert process.stdout.readline().split() == [str(CORE)]
        assert one.cores() == [CORES - {CORE}]
        with neighbour() as newcomer:  # found by a later scan
            os.sched_setaffinity(newcomer.process.pid, CORES)
            eventually(lambda: newcomer.cores() == [CORES - {CORE}])
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        eventually(lambda: one.cores() == [CORES])


def test_own_cores_and_the_lock(tmp_path):
    lock = tmp_path / "lock"
    done = subprocess.run(
        [sys.executable, "-c", measuring("")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split("\n")[:2] == [str(CORE), " ".join(map(str, sorted(CORES)))], (
        done.stderr
    )
    before = os.sched_getaffinity(0)
    try:
        core = TimingCore(CORE, CORES, lock=lock)
        with core.calm():
            taken = subprocess.run(["flock", "--nonblock", str(lock), "true"])
            assert taken.returncode == 1
        assert subprocess.run(["flock", "--nonblock", str(lock), "true"]).returncode == 0
    finally:
        os.sched_setaffinity(0, before)
