"""Stage 2 killed at random moments and started again: the same weights, bit for bit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .builders import COLLECTION
from .stages import REPOSITORY, environment, run_stage
from .synthetic import write_collection

KILLS = 10
WEIGHTS = ("last.safetensors", "model.safetensors")
# Imports everything, says so, saves its state after every epoch, and is stage 2 from there on.
DRIVER = """
import runpy, sys
import lib.train.loop, lib.train.kinds, lib.model, lib.native, lib.tracking, tqdm
lib.native.available()
lib.train.loop.SAVE_SECONDS = 0.0
sys.argv = sys.argv[1:]
print("ready", flush=True)
runpy.run_path(sys.argv[0], run_name="__main__")
"""
FLAGS = ("--fold", 0, "--folds-total", 2, "--channels", 64, "--epochs", 60)


def start(root: Path, outputs: Path) -> subprocess.Popen:
    """Start stage 2 in a process group of its own; returns when it has all that it imports."""
    line = [sys.executable, "-c", DRIVER, "02_train.py", "--collection", COLLECTION, *FLAGS]
    process = subprocess.Popen(
        [str(word) for word in (*line, "--data", root, "--outputs", outputs)],
        cwd=REPOSITORY,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout.readline() == b"ready\n"
    return process


def finish(process: subprocess.Popen) -> float:
    """Let stage 2 end undisturbed; returns the seconds that it took."""
    started = time.monotonic()
    process.communicate(timeout=240)
    assert process.returncode == 0
    return time.monotonic() - started


def tensors(folder: Path) -> list[bytes]:
    """The weights files' tensors: all but the header, which tells of the run."""
    found = []
    for name in WEIGHTS:
        content = (folder / name).read_bytes()
        found.append(content[8 + int.from_bytes(content[:8], "little") :])
    return found


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    write_collection(folder, COLLECTION, train=5, valid=1, test=1)
    return folder


def test_killed_at_random_moments(root, tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for outputs in (whole, broken):
        done = run_stage("01_preprocess.py", "--data", root, "--outputs", outputs)
        assert done.returncode == 0, done.stderr
    longest = finish(start(root, whole))
    expected = tensors(whole / COLLECTION / "fold_0")

    random.seed(0)
    folder = broken / COLLECTION / "fold_0"
    killed, resumed = 0, 0
    while killed < KILLS:
        if all((folder / name).exists() for name in WEIGHTS):
            assert tensors(folder) == expected
        resumed += (folder / "state.safetensors").exists()
        process = start(root, broken)
        time.sleep(random.uniform(0, 0.6 * longest))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
    assert resumed, "no run was resumed: nothing is shown"
    finish(start(root, broken))
    assert tensors(folder) == expected
    assert not list(folder.glob("state*"))
