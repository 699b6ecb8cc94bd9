"""Stage 1 killed at any moment: the cache is absent, the old one or the new one, never a part."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lib.cache.reader import Cache
from lib.errors import UserError
from lib.preprocess import collection

from .builders import COLLECTION
from .stages import REPOSITORY, environment
from .synthetic import write_collection

KILLS = 20
# Imports everything, says so, and is stage 1 from there on.
DRIVER = """
import runpy, sys
import lib.preprocess.collection, lib.settings, tqdm
sys.argv = sys.argv[1:]
print("ready", flush=True)
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def start(root: Path, outputs: Path, hops: int, jobs: int) -> subprocess.Popen:
    """Start stage 1 in a process group of its own; returns when it has all that it imports."""
    line = [sys.executable, "-c", DRIVER, "01_preprocess.py", "--collection", COLLECTION]
    line += ["--data", root, "--outputs", outputs, "--hops", hops, "--jobs", jobs]
    process = subprocess.Popen(
        [str(word) for word in line],
        cwd=REPOSITORY,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    assert process.stdout.readline() == b"ready\n"
    return process


def content(cache: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in cache.iterdir()}


def finish(process: subprocess.Popen) -> float:
    """Let stage 1 end undisturbed; returns the seconds that it took."""
    started = time.monotonic()
    process.communicate(timeout=120)
    assert process.returncode == 0
    return time.monotonic() - started


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("root")
    write_collection(folder, COLLECTION, train=12, valid=2, test=2)
    return folder


@pytest.fixture(scope="module")
def whole(root, tmp_path_factory) -> dict[int, tuple[dict[str, bytes], float]]:
    """What undisturbed runs write and how long they take, by hops."""
    found = {}
    for hops in (1, 2):
        outputs = tmp_path_factory.mktemp(f"whole{hops}")
        seconds = finish(start(root, outputs, hops, jobs=1))
        found[hops] = content(outputs / COLLECTION / "cache"), seconds
    return found


def test_killed_at_random_moments(root, whole, tmp_path):
    random.seed(0)
    cache = tmp_path / COLLECTION / "cache"
    killed, longest = 0, max(seconds for _, seconds in whole.values())
    while killed < KILLS:
        hops, jobs = 1 + killed % 2, 2 if killed % 5 == 4 else 1
        process = start(root, tmp_path, hops, jobs)
        time.sleep(random.uniform(0, longest * (1 if jobs == 1 else 3)))
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        longest *= 1 if process.returncode else 0.9  # it ended before it could be killed
        if cache.exists():
            Cache(cache)
            assert content(cache) in (whole[1][0], whole[2][0]), "a part of a cache"
    assert {path.name for path in cache.parent.iterdir() if path.name[0] != "."} <= {
        "cache",
        "stages",
    }
    finish(start(root, tmp_path, 1, 1))
    assert content(cache) == whole[1][0]
    assert sorted(path.name for path in cache.parent.iterdir()) == ["cache", "stages"]


def die(*_: object) -> None:
    """What the kernel does to a worker when there is no memory left."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_one_line_and_no_traceback(tmp_path, monkeypatch):
    monkeypatch.setattr(collection, "_process", die)
    files = [collection.RawFile(tmp_path / f"{name}.npz", "train") for name in "abc"]
    with pytest.raises(UserError, match="a worker was killed, most likely for want of memory"):
        collection.write_cache(tmp_path / "cache", files, {"hops": 1}, jobs=2)
    assert not (tmp_path / "cache").exists()
