"""Commands that are handed over, each followed to its end, and the lines that say how they went.

A target has one line when it begins to run and one when it is made: its state, its node, and the
last line that the stage has printed, which has the metric. A task that was lost with its worker or
node is put into the queue again; the stage goes on from what it has saved.
"""

from __future__ import annotations

import json
import select
import shutil
import socket
import socketserver
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from lib.cluster.executors import Executor, Lost
from lib.cluster.task import Task
from lib.files.errors import in_one_line
from lib.files.locks import FOLDER
from lib.files.terminal import duration, paint

POLL = 0.2  # seconds between looks at a task
CANCEL_SECONDS = 10  # at most, that a cancelled task is waited for
ATTEMPTS = 10  # of a task whose nodes are lost
COLOURS = {"done": "green", "failed": "red", "lost": "yellow", "cancelled": "yellow"}


class Cancelled(Exception):
    """Who handed the task over is gone: interrupted, or killed."""


class Hand(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """What :mod:`lib.cluster.hand` talks to: a thread a command, for as long as it takes.

    Args:
        address: of the socket.
        executor: where commands run.
        outputs: where results go; logs lie below it, where all nodes see them.
    """

    request_queue_size = 1024  # make may hand over all folds of all collections at once

    def __init__(self, address: Path, executor: Executor, outputs: Path):
        super().__init__(str(address), _Handler)
        self.executor, self.outputs = executor, outputs
        self.saying, self.targets = threading.Lock(), set[str]()

    def follow(self, about: dict[str, Any], connection: socket.socket) -> int:
        """Run a command that was handed over; its exit code.

        Several makes may want one target, such as the cache of a collection that others learn from:
        a command waits for the one that makes it, and finds it as it was.
        """
        while not self._claimed(about["target"]):
            if _is_gone(connection):  # which waits a moment
                return 130
        task = self.task(about)
        try:
            return self._attempts(task, lambda: _is_gone(connection))
        except Cancelled:
            self.say("cancelled", task.node(), task, "what it has saved stays")
            return 130
        except Exception as error:  # of the engine's: printed as what happened to this task
            self.say("failed", task.node(), task, in_one_line(error))
            return 2
        finally:
            with self.saying:
                self.targets.discard(about["target"])

    def _claimed(self, target: str) -> bool:
        """Whether nobody else is making a target, so that it can be made now."""
        with self.saying:
            free = target not in self.targets
            self.targets.add(target)
        return free

    def task(self, about: dict[str, Any]) -> Task:
        """The task that a message describes; logs of an earlier run of it are deleted."""
        target = Path(about["target"])
        below = target.relative_to(self.outputs) if target.is_relative_to(self.outputs) else target
        logs = self.outputs / FOLDER / f"{'.'.join(below.parts)}.task"
        shutil.rmtree(logs, ignore_errors=True)
        return Task(
            target=str(below),
            command=tuple(about["command"]),
            folder=str(Path.cwd()),
            environment=about["environment"],
            logs=str(logs.resolve()),
            cpus=int(about["cpus"]),
            gpus=float(about["gpus"]),
        )

    def _attempts(self, task: Task, gone: Callable[[], bool]) -> int:
        for attempt in range(1, ATTEMPTS + 1):
            tried, started = replace(task, attempt=attempt), time.monotonic()
            try:
                code = self._attempt(tried, gone)
                if code < 0:
                    raise Lost(f"killed by signal {-code}")
            except Lost as lost:
                again = "runs again" if attempt < ATTEMPTS else f"{ATTEMPTS} times: given up"
                self.say("lost", tried.node(), task, f"{in_one_line(lost)}; {again}")
                continue
            last_line = in_one_line(Exception(tried.last_line() or "it has printed nothing"))
            if code:
                self.say("failed", tried.node(), task, f"{last_line} (all of it: {task.logs}/)")
            else:
                took = duration(time.monotonic() - started)
                self.say("done", tried.node(), task, f"{took}; {last_line}")
            return code
        return 1

    def _attempt(self, task: Task, gone: Callable[[], bool]) -> int:
        """Follow one attempt to its end.

        Raises:
            Lost: with its worker or node.
            Cancelled: by who handed it over.
        """
        handle, node = self.executor.submit(task), ""
        while not self.executor.finished(handle):
            if gone():  # which waits a moment
                self._cancel(handle)
                raise Cancelled
            if task.node() != node:  # a queue may run it on several in turn
                node = task.node()
                self.say("running", node, task)
        return self.executor.result(handle)

    def _cancel(self, handle: Any) -> None:
        """Cancel a task, and give it a while to end: make's end is to be the end of all."""
        self.executor.cancel(handle)
        until = time.monotonic() + CANCEL_SECONDS
        while time.monotonic() < until and not self.executor.finished(handle):
            time.sleep(POLL)

    def say(self, state: str, node: str, task: Task, text: str = "") -> None:
        """A line: state, node and target, and what there is to say."""
        line = f"{paint(f'{state:<10}', COLOURS.get(state, 'bold'))}{node or '-':<16}{task.target}"
        with self.saying:
            print(f"{line}: {text}" if text else line, flush=True)


class _Handler(socketserver.StreamRequestHandler):
    server: Hand

    def handle(self) -> None:
        """A command's line, and in the end its exit code."""
        line = self.rfile.readline()
        if not line:
            return
        code = self.server.follow(json.loads(line), self.connection)
        try:
            self.wfile.write(f"{code}\n".encode())
        except OSError:
            return  # interrupted


def _is_gone(connection: socket.socket) -> bool:
    """Whether the other side has closed; it has nothing to say otherwise. Waits a moment."""
    readable, _, _ = select.select([connection], [], [], POLL)
    return bool(readable) and not connection.recv(1)
