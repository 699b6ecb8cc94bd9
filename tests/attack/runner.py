"""Commands in processes of their own, forked from one that has imported everything.

Importing torch and polars takes seconds, a fork milliseconds. The parent never uses what it has
imported: no thread pool is started before a fork, since threads do not survive one.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import runpy
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from tests.stages import environment

REPOSITORY = Path(__file__).resolve().parents[2]
SECONDS = 60.0  # that a command may take
MORE_ADDRESSES = 3 << 30  # bytes of addresses that a command may take beside what is imported
LARGEST_FILE = 1 << 30  # bytes that a command may write to one file
SHOWN_BYTES = 1 << 20  # of what a command says, that are read back
# Threads of libraries would outlive no fork; W&B would write into the tree.
ENVIRONMENT = {
    **dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"),
    "POLARS_MAX_THREADS": "1",
    "WANDB_MODE": "disabled",
    "PYTHONHASHSEED": "0",
    "NO_COLOR": "1",
}


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes:
        code: its exit code, or minus the signal that killed it.
        stdout, stderr: what it said, the first megabyte.
        seconds: that it took.
        peak: most bytes of memory it had, those of what was imported among them.
        timed_out: whether it was killed because it did not end.
    """

    code: int
    stdout: str
    stderr: str
    seconds: float
    peak: int
    timed_out: bool


def run(words: Sequence[str], folder: Path, largest: int = LARGEST_FILE) -> Outcome:
    """Run a stage script (``01_preprocess.py ...``) or a module (``-m lib.report ...``).

    Args:
        words: its command line, without the interpreter.
        folder: that it runs in.
        largest: bytes that it may write to one file: the disk is full then.
    """
    said = [folder.parent / f"{folder.name}.{name}" for name in ("stdout", "stderr")]
    started = time.monotonic()
    pid = _fork(lambda: _command(words, folder, largest, *said))
    timed_out = not _ended(pid, SECONDS)
    seconds = time.monotonic() - started
    _kill(pid)  # and whatever it has started, while nobody else can have its number
    _, status, usage = os.wait4(pid, 0)
    texts = []
    for path in said:
        with open(path, "rb") as file:
            texts.append(file.read(SHOWN_BYTES).decode(errors="replace"))
        path.unlink()
    code, peak = os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024
    return Outcome(code, *texts, seconds, peak, timed_out)


def call(function: Callable[[], Any]) -> Any:
    """The JSON-serializable result of a function that runs in a process of its own.

    Raises:
        RuntimeError: with the traceback, if it fails.
    """
    reading, writing = os.pipe()

    def child() -> int:
        os.close(reading)
        try:
            answer = {"value": function()}
        except BaseException:
            answer = {"error": traceback.format_exc()}
        with open(writing, "w") as file:
            json.dump(answer, file)
        return 0

    pid = _fork(child)
    os.close(writing)
    with open(reading) as file:
        text = file.read()
    os.waitpid(pid, 0)
    answer = json.loads(text) if text else {"error": "the process was killed"}
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer["value"]


def spread(function: Callable[[int], Any], numbers: Sequence[int], jobs: int) -> Iterator[Any]:
    """The JSON-serializable results for some numbers, as they come, from several processes.

    Raises:
        RuntimeError: if one of them ends before its work.
    """
    pipes = {}
    for job in range(jobs):
        reading, writing = os.pipe()
        sys.stdout.flush()
        if not os.fork():
            code = 1
            try:
                with open(writing, "w", buffering=1) as file:
                    for number in numbers[job::jobs]:
                        file.write(json.dumps(function(number)) + "\n")
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        os.close(writing)
        pipes[reading] = b""
    while pipes:
        for reading in select.select(list(pipes), [], [])[0]:
            data = os.read(reading, 1 << 16)
            *lines, pipes[reading] = (pipes[reading] + data).split(b"\n")
            yield from map(json.loads, lines)
            if not data:
                del pipes[reading]
                os.close(reading)
    if any(os.waitstatus_to_exitcode(os.wait()[1]) for _ in range(jobs)):
        raise RuntimeError("a process ended before its work")


def become(words: Sequence[str], folder: Path) -> None:
    """Run a command in this process, without what it says."""
    os.chdir(folder)
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        _run_as_main(words)


def _fork(function: Callable[[], int]) -> int:
    """The process that runs a function and ends with its result, in a session of its own."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        os.setsid()
        code = function()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def _command(words: Sequence[str], folder: Path, largest: int, stdout: Path, stderr: Path) -> int:
    """Become a command; returns its exit code."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open(stdout, flags), 1)
    os.dup2(os.open(stderr, flags), 2)
    sys.stdin, sys.stdout = open(0, closefd=False), open(1, "w", closefd=False)
    sys.stderr = open(2, "w", errors="backslashreplace", closefd=False)
    os.chdir(folder)
    _limit(largest)
    try:
        if words[0] == "env":
            os.execvpe(words[0], words, environment())
        _run_as_main(words)
        code = 0
    except SystemExit as exit:
        if isinstance(exit.code, str):
            print(exit.code, file=sys.stderr)
        code = exit.code if isinstance(exit.code, int) else int(exit.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def _run_as_main(words: Sequence[str]) -> None:
    from lib.runs.identity import Run

    Run.as_it_was = lambda *_: False  # stages work, although their results may be there
    if words[0] == "-m":
        sys.argv = list(words[1:])
        if not hasattr(sys.modules.get(words[1]), "__path__"):
            sys.modules.pop(words[1], None)  # runpy warns of a module that is imported already
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(words)
        runpy.run_path(str(REPOSITORY / words[0]), run_name="__main__")


def _limit(largest: int) -> None:
    """Bound what a command may take, so that it fails and not the machine."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MORE_ADDRESSES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_FSIZE, (largest, largest))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _ended(pid: int, seconds: float) -> bool:
    """Whether a process ends within some seconds; it is left to be waited for."""
    handle = os.pidfd_open(pid)
    try:
        return bool(select.select([handle], [], [], seconds)[0])
    finally:
        os.close(handle)


def _kill(pid: int) -> None:
    """End a process and all in its session's group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def restart_with(environment: dict[str, str], module: str, arguments: Sequence[str]) -> NoReturn:
    """Become the same command with other variables, which libraries read when they are loaded."""
    os.environ.update(environment)
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments])
