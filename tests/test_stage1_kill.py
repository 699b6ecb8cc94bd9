"""Stage 1 killed at any moment: the cache is absent, the old one or the new one, never a part."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.preprocess import collection
from tests.builders import COLLECTION
from tests.killing import finish, kill, start
from tests.synthetic import write_collection

KILLS = 20
IMPORTS = "import lib.preprocess.collection, lib.settings, tqdm"


def started(root: Path, outputs: Path, jobs: int) -> subprocess.Popen:
    """Stage 1 with all that it imports."""
    return start(IMPORTS, "01_preprocess.py", "--data", root, "--outputs", outputs, "--jobs", jobs)


def content(cache: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in cache.iterdir()}


@pytest.fixture(scope="module")
def roots(tmp_path_factory) -> dict[int, Path]:
    """Two data roots, whose caches differ, by their number of training graphs."""
    found = {}
    for train in (11, 12):
        found[train] = tmp_path_factory.mktemp(f"root{train}")
        write_collection(found[train], COLLECTION, train=train, valid=2, test=2)
    return found


@pytest.fixture(scope="module")
def whole(roots, tmp_path_factory) -> dict[int, tuple[dict[str, bytes], float]]:
    """What undisturbed runs write and how long they take, by training graphs."""
    found = {}
    for train, root in roots.items():
        outputs = tmp_path_factory.mktemp(f"whole{train}")
        seconds = finish(started(root, outputs, jobs=1))
        found[train] = content(outputs / COLLECTION / "cache-all"), seconds
    return found


def test_killed_at_random_moments(roots, whole, tmp_path):
    random.seed(0)
    cache = tmp_path / COLLECTION / "cache-all"
    killed, longest = 0, max(seconds for _, seconds in whole.values())
    while killed < KILLS:
        train, jobs = 11 + killed % 2, 2 if killed % 5 == 4 else 1
        process = started(roots[train], tmp_path, jobs)
        time.sleep(random.uniform(0, longest * (1 if jobs == 1 else 3)))
        killed += kill(process)
        longest *= 1 if process.returncode else 0.9  # it ended before it could be killed
        if cache.exists():
            Cache(cache)
            assert content(cache) in (whole[11][0], whole[12][0]), "a part of a cache"
    assert {path.name for path in cache.parent.iterdir() if path.name[0] != "."} <= {
        "cache-all",
        "stages",
    }
    finish(started(roots[11], tmp_path, 1))
    assert content(cache) == whole[11][0]
    assert sorted(path.name for path in cache.parent.iterdir()) == ["cache-all", "stages"]


def die(*_: object) -> None:
    """What the kernel does to a worker when there is no memory left."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_worker_is_one_line_and_no_traceback(tmp_path, monkeypatch):
    monkeypatch.setattr(collection, "_process", die)
    files = [collection.RawFile(tmp_path / f"{name}.npz", "train") for name in "abc"]
    with pytest.raises(UserError, match="a worker was killed, most likely for want of memory"):
        collection.write_cache(tmp_path / "cache", files, {"hops": 1}, jobs=2)
    assert not (tmp_path / "cache").exists()
