"""Stages that are killed at a moment of the test's choosing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tests.stages import REPOSITORY, command, environment

WEIGHTS = ("last.safetensors", "model.safetensors")
TIMES = {
    "seconds",
    "validation_seconds",
    "configurations_per_second",
}  # of a history, which differ from run to run
# Imports what the stage needs, prepares it, says so, and is the stage from there on.
DRIVER = """
import runpy, sys
{prepare}
sys.argv = sys.argv[1:]
print("ready", flush=True)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
# Imports what stages need once, and is forked into one for each line [arguments, step, seconds]
# that it reads: the real script, which is killed at a step of its training, or after a time. It
# answers with the exit code. (AdamW imports torch._dynamo when it is first made.)
SERVER = """
import gc, json, os, runpy, signal, sys, time, traceback
import polars, torch, torch._dynamo, tqdm
import lib.models, lib.native, lib.preprocess.collection, lib.runs.tracking, lib.train.kinds
from lib.train.loop import FoldTraining
lib.native.available()

def become(arguments, killed_at):
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    taken, real = [], FoldTraining.step

    def step(self, sample):
        if len(taken) == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)
        taken.append(sample)
        return real(self, sample)

    FoldTraining.step = step
    sys.argv = arguments
    runpy.run_path(arguments[0], run_name="__main__")

def fork(arguments, killed_at):
    process = os.fork()
    if process:
        return process
    code = 0
    try:
        become(arguments, killed_at)
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    os._exit(code)  # tearing down all that was imported takes longer than training

gc.freeze()
for line in sys.stdin:
    arguments, killed_at, seconds = json.loads(line)
    process = fork(arguments, killed_at)
    if seconds is not None:
        time.sleep(seconds)
        os.kill(process, signal.SIGKILL)  # to no effect if it has ended: it was not waited for
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
os._exit(0)
"""


def start(prepare: str, script: str, *flags: object) -> subprocess.Popen:
    """Start a stage in a process group of its own; returns when ``prepare`` has been run in it."""
    python, *line = command(script, *flags)
    process = subprocess.Popen(
        [python, "-c", DRIVER.format(prepare=prepare), *line],
        cwd=REPOSITORY,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout.readline() == b"ready\n"
    return process


def finish(process: subprocess.Popen) -> float:
    """Let a stage end undisturbed; returns the seconds that it took."""
    started = time.monotonic()
    process.communicate(timeout=240)
    assert process.returncode == 0
    return time.monotonic() - started


def kill(process: subprocess.Popen) -> bool:
    """Kill a stage and all that it started; whether it was still running."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return process.returncode == -signal.SIGKILL


@dataclass
class Stages:
    """Stages, one after the other, each in a process of its own that need not import anything."""

    server: subprocess.Popen

    def run(
        self, script: str, *flags: object, step: int | None = None, seconds: float | None = None
    ) -> bool:
        """Run a stage.

        Args:
            script: such as ``02_train.py``.
            flags: of the stage.
            step: of its training, from 0, at which it is killed.
            seconds: after which it is killed.

        Returns:
            Whether it came to its end; False if it was killed.
        """
        line = [list(map(str, command(script, *flags)[1:])), step, seconds]
        self.server.stdin.write(json.dumps(line) + "\n")
        self.server.stdin.flush()
        code = int(self.server.stdout.readline())
        assert code in (0, -signal.SIGKILL), f"exit code {code} of {' '.join(line[0])}"
        return code == 0


@contextmanager
def stages() -> Iterator[Stages]:
    """A server of :class:`Stages`."""
    with subprocess.Popen(
        [sys.executable, "-c", SERVER],
        cwd=REPOSITORY,
        env=environment() | {"OMP_WAIT_POLICY": "passive"},  # threads that wait leave the cores
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as server:
        yield Stages(server)
        server.stdin.close()


def assert_same_training(one: Path, other: Path) -> None:
    """Both folders of a fold hold the same weights, to the bit, and the same history."""
    for name in WEIGHTS:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    histories = [pl.read_parquet(folder / "history.parquet") for folder in (one, other)]
    columns = sorted(set(histories[0].columns) - TIMES)
    assert histories[0].select(columns).equals(histories[1].select(columns))
