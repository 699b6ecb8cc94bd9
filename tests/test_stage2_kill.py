"""Stage 2 killed at random moments and started again: the same weights, bit for bit."""

from __future__ import annotations

import random
import subprocess
import time
from pathlib import Path

import pytest

from .builders import COLLECTION, TGRAPH
from .killing import WEIGHTS, finish, kill, start
from .stages import run_stage
from .synthetic import write_collection

KILLS = 10
# Imports everything and saves its state after every epoch.
PREPARE = """
import lib.train.loop, lib.train.kinds, lib.model, lib.native, lib.tracking, tqdm
lib.native.available()
lib.train.loop.SAVE_SECONDS = 0.0
"""
FLAGS = ("--model", "tgraph", "--fold", 0, "--folds-total", 2, "--channels", 64, "--epochs", 60)


def started(root: Path, outputs: Path) -> subprocess.Popen:
    """Stage 2, about to begin."""
    return start(PREPARE, "02_train.py", *FLAGS, "--data", root, "--outputs", outputs)


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
        done = run_stage("01_preprocess.py", *FLAGS[:2], "--data", root, "--outputs", outputs)
        assert done.returncode == 0, done.stderr
    longest = finish(started(root, whole))
    expected = tensors(whole / TGRAPH / "fold_0")

    random.seed(0)
    folder = broken / TGRAPH / "fold_0"
    killed, resumed = 0, 0
    while killed < KILLS:
        if all((folder / name).exists() for name in WEIGHTS):
            assert tensors(folder) == expected
        resumed += (folder / "state.safetensors").exists()
        process = started(root, broken)
        time.sleep(random.uniform(0, 0.6 * longest))
        killed += kill(process)
    assert resumed, "no run was resumed: nothing is shown"
    finish(started(root, broken))
    assert tensors(folder) == expected
    assert not list(folder.glob("state*"))
