"""A calm core to time on: pinned, first in line, one collector at a time, all else kept away.

``python -m lib.collect.quiet CORE NAMES`` keeps other processes away. It reads ``on``
and ``off`` lines, answers each, and puts every process back where it was when its input ends:
also when the collector that started it was killed.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

SCAN_SECONDS = 0.1
FIRST_IN_LINE = os.SCHED_RR, os.sched_param(1)
ORDINARY = os.SCHED_OTHER, os.sched_param(0)


class TimingCore:
    """Cores that this process times on and compiles on.

    Compiling runs on ``compile_cores`` at ``nice``; within :meth:`calm` every thread of this
    process is on ``core`` alone. A ``lock`` makes several collectors take turns. ``clear`` names
    the processes (by how their command begins) that a watcher holds off the core meanwhile, each
    on the other cores that it may use; if the system allows, timing then has real-time priority.
    """

    def __init__(
        self,
        core: int,
        compile_cores: Iterable[int] | None = None,
        nice: int = 0,
        lock: Path | None = None,
        clear: str = "",
        realtime: bool = False,
    ):
        self.core, self.lock, self.clear = core, lock, clear
        self.scheduling = FIRST_IN_LINE if clear or realtime else ORDINARY
        self.compile_cores = set(compile_cores or {core})
        self.watcher: subprocess.Popen | None = None
        if clear:
            self.watcher = subprocess.Popen(
                [sys.executable, "-m", "lib.collect.quiet", str(core), clear],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                start_new_session=True,  # so that a kill of the process group spares it
            )
        os.nice(nice)  # after the watcher, which must not wait in line

    @contextmanager
    def calm(self) -> Iterator[None]:
        """Time in here."""
        with ExitStack() as stack:
            if self.lock is not None:
                fcntl.flock(stack.enter_context(open(self.lock, "w")), fcntl.LOCK_EX)
            self._tell("on")
            _move_own_threads({self.core}, self.scheduling)
            try:
                yield
            finally:
                self.release()
                self._tell("off")

    def release(self) -> None:
        """Leave the core, to compile."""
        _move_own_threads(self.compile_cores, ORDINARY)

    def _tell(self, word: str) -> None:
        """Give the watcher an order and wait until it is carried out."""
        if self.watcher is not None:
            self.watcher.stdin.write(f"{word}\n")
            self.watcher.stdin.flush()
            self.watcher.stdout.readline()


def _move_own_threads(cores: set[int], scheduling: tuple[int, os.sched_param]) -> None:
    """Cores and scheduling of every thread of this process; scheduling needs privileges."""
    for thread in _numbers("/proc/self/task"):
        with suppress(ProcessLookupError):
            os.sched_setaffinity(thread, cores)
            with suppress(PermissionError):
                os.sched_setscheduler(thread, *scheduling)


def _numbers(folder: str) -> list[int]:
    """Return the processes or threads that a folder of /proc lists."""
    return [int(path.name) for path in Path(folder).iterdir() if path.name.isdigit()]


class MovedProcesses:
    """Processes that were moved off a core, and where each of their threads was before."""

    def __init__(self, core: int, names: Iterable[str], keep: Iterable[int]):
        self.core, self.names, self.keep = core, tuple(names), set(keep)
        self.elsewhere = set(range(os.cpu_count() or 1)) - {core}
        self.moved: dict[int, dict[int, set[int]]] = {}  # process -> thread -> its cores before
        self.present: set[int] = set()  # processes that were there before any was moved

    def move(self) -> None:
        """Move what now may run on the core; children of moved processes, by their parent."""
        processes = _numbers("/proc")
        self.present = self.present or set(processes)
        for process in processes:
            with suppress(OSError):
                if process not in self.keep:
                    self._look_at(process)

    def _look_at(self, process: int) -> None:
        text = Path(f"/proc/{process}/stat").read_text()
        name, rest = text[text.index("(") + 1 :].rsplit(")", 1)
        parent = int(rest.split()[1])
        if parent in self.moved and process not in self.present:  # born off the core
            self.moved.setdefault(process, {process: self.moved[parent][parent]})
        if not name.startswith(self.names) or not self.elsewhere:
            return
        for thread in _numbers(f"/proc/{process}/task"):
            cores = os.sched_getaffinity(thread)
            if self.core in cores:
                self.moved.setdefault(process, {process: cores}).setdefault(thread, cores)
                os.sched_setaffinity(thread, cores - {self.core} or self.elsewhere)

    def restore(self) -> None:
        """Put every thread back; a thread born meanwhile gets the cores of its process."""
        for process, threads in self.moved.items():
            with suppress(OSError):
                for thread in _numbers(f"/proc/{process}/task"):
                    with suppress(OSError):
                        os.sched_setaffinity(thread, threads.get(thread, threads[process]))
        self.moved.clear()
        self.present.clear()


def watch(core: int, names: Iterable[str]) -> None:
    """Obey ``on`` and ``off`` lines until they end; see the module's text."""
    moved = MovedProcesses(core, names, keep={os.getpid(), os.getppid()})
    if moved.elsewhere:
        os.sched_setaffinity(0, moved.elsewhere)
    active, busy = threading.Event(), threading.Lock()

    def scan() -> None:
        while active.wait():
            with busy:
                if active.is_set():
                    moved.move()
            threading.Event().wait(SCAN_SECONDS)

    threading.Thread(target=scan, daemon=True).start()
    for line in sys.stdin:
        with busy:
            if line.strip() == "on":
                moved.move()
                active.set()
            else:
                active.clear()
                moved.restore()
        print("done", flush=True)
    with busy:
        moved.restore()


if __name__ == "__main__":
    watch(int(sys.argv[1]), [name for name in sys.argv[2].split(",") if name])
