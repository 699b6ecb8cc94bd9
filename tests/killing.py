"""Stages that are killed at a moment of the test's choosing."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import polars as pl

from .stages import REPOSITORY, command, environment

WEIGHTS = ("last.safetensors", "model.safetensors")
TIMES = {"seconds", "configurations_per_second"}  # of a history, which differ from run to run
# Imports what the stage needs, prepares it, says so, and is the stage from there on.
DRIVER = """
import runpy, sys
{prepare}
sys.argv = sys.argv[1:]
print("ready", flush=True)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
SAVE_EVERY_EPOCH = "from lib.train import loop\nloop.SAVE_SECONDS = -1.0"


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


def kill_training(state: Path, *flags: object) -> None:
    """Start a training that saves after every epoch; kill it soon after its first save."""
    process = start(SAVE_EVERY_EPOCH, "02_train.py", *flags)
    deadline = time.monotonic() + 120
    while not state.exists() and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(random.uniform(0, 0.3))
    assert kill(process), "it ended before it was killed"


def assert_same_training(one: Path, other: Path) -> None:
    """Both folders of a fold hold the same weights, to the bit, and the same history."""
    for name in WEIGHTS:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    histories = [pl.read_parquet(folder / "history.parquet") for folder in (one, other)]
    columns = sorted(set(histories[0].columns) - TIMES)
    assert histories[0].select(columns).equals(histories[1].select(columns))
