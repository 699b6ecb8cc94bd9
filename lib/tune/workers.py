"""Processes that run trials side by side, and what they say meanwhile.

A worker imports and opens the cache once and runs one trial after another. It dies with the
process that started it, however that ends; if it dies itself, that is told as the trial's end.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import connection
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from lib.files.errors import UserError, in_one_line
from lib.settings import Settings

CONTEXT = multiprocessing.get_context("spawn")  # torch's threads do not survive a fork


@dataclass(frozen=True)
class Task:
    """What a worker is to do.

    Attributes:
        key: whose trial this is, which every message about it has.
        settings: of the trial.
        folds: how many it trains.
    """

    key: Any
    settings: Settings
    folds: int


@dataclass(frozen=True)
class Message:
    """What a worker says: a ``pass`` is over, or the trial has ``ended``, ``failed`` or ``died``.

    Attributes:
        key: of the task.
        what: one of these.
        step: of a pass, its number.
        value: the metric; ``None`` if there is none.
        why: a trial failed or died.
    """

    key: Any
    what: str
    step: int = 0
    value: float | None = None
    why: str = ""


class Workers:
    """Up to ``jobs`` processes; a context manager that ends them.

    Args:
        jobs: how many trials at a time.
        cache: the collection's, a folder.
        states: for training states of trials that are under way.
    """

    def __init__(self, jobs: int, cache: Path, states: Path):
        self.jobs, self.cache, self.states = jobs, cache, states
        self.idle: list[_Worker] = []
        self.busy: dict[Connection, _Worker] = {}

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in (*self.idle, *self.busy.values()):
            worker.end()

    @property
    def free(self) -> bool:
        """Whether another task can be started."""
        return len(self.busy) < self.jobs

    def start(self, task: Task) -> None:
        """Give a task to a worker that has none."""
        worker = self.idle.pop() if self.idle else _Worker(self.cache, self.states)
        worker.task = task
        worker.pipe.send(task)
        self.busy[worker.pipe] = worker

    def hear(self) -> Iterator[Message]:
        """What workers say, when one does; a ``pass`` must be answered by :meth:`answer`."""
        for pipe in connection.wait(list(self.busy)):
            worker = self.busy[pipe]
            try:
                message = pipe.recv()
            except (EOFError, OSError):
                del self.busy[pipe]
                message = Message(worker.task.key, "died", why=worker.death())
            else:
                if message.what != "pass":
                    self.idle.append(self.busy.pop(pipe))
            yield message

    def answer(self, key: Any, go_on: bool) -> None:
        """Whether the trial whose pass was reported goes on."""
        worker = next(worker for worker in self.busy.values() if worker.task.key == key)
        worker.pipe.send(go_on)


class _Worker:
    """A process, this end of its pipe, and what it does."""

    def __init__(self, cache: Path, states: Path):
        self.pipe, theirs = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=serve, args=(theirs, cache, states), daemon=True)
        self.process.start()
        theirs.close()  # so that its death is heard
        self.task: Task | None = None

    def end(self) -> None:
        """At once: what a trial has saved, the next run goes on from."""
        self.process.kill()
        self.process.join()

    def death(self) -> str:
        self.process.join()
        code = self.process.exitcode
        return f"signal {-code}" if code < 0 else f"exit code {code}, see above"


def serve(pipe: Connection, cache_folder: Path, states: Path) -> None:
    """Run the tasks that come through a pipe, until nobody is at its other end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to act on
    threading.Thread(target=_die_with_parent, daemon=True).start()
    from lib.cache.reader import Cache  # late: torch takes seconds
    from lib.tune.trial import run_trial

    cache = Cache(cache_folder)
    while True:
        try:
            task = pipe.recv()
        except EOFError:
            return

        def report(step: int, value: float | None, key: Any = task.key) -> bool:
            pipe.send(Message(key, "pass", step, value))
            return pipe.recv()

        try:
            value = run_trial(task.settings, cache, task.folds, states, report)
            pipe.send(Message(task.key, "ended", value=value))
        except (UserError, MemoryError) as error:
            pipe.send(Message(task.key, "failed", why=in_one_line(error)))


def _die_with_parent() -> None:
    connection.wait([multiprocessing.parent_process().sentinel])
    os._exit(1)
