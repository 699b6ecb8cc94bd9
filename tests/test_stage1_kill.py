"""Stage 1 killed at any moment: the cache is absent, the old one or the new one, never a part."""

from __future__ import annotations

import itertools
import os
import random
import signal
from pathlib import Path

import pytest

from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.preprocess import collection
from tests import killing
from tests.builders import COLLECTION
from tests.synthetic import write_collection

KILLS = 4


def run(root: Path, outputs: Path, jobs: int, change: int = -1) -> int | None:
    """Stage 1, killed before a change of files; how many it made, None if it was killed."""
    flags = ("--data", root, "--outputs", outputs, "--jobs", jobs)
    return killing.run("01_preprocess.py", *flags, change=change)


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
def whole(roots, tmp_path_factory) -> dict[int, tuple[dict[str, bytes], int]]:
    """What undisturbed runs write and how many changes of files they make, by training graphs."""
    found = {}
    for train, root in roots.items():
        outputs = tmp_path_factory.mktemp(f"whole{train}")
        changes = run(root, outputs, jobs=1)
        found[train] = content(outputs / COLLECTION / "cache"), changes
    return found


def test_killed_at_random_moments(roots, whole, tmp_path):
    random.seed(0)
    cache = tmp_path / COLLECTION / "cache"
    killed, changes = 0, min(changes for _, changes in whole.values())
    trains = itertools.cycle((11, 12))  # what is there already is not made again
    while killed < KILLS:
        train, jobs = next(trains), 2 if killed == 2 else 1
        killed += run(roots[train], tmp_path, jobs, random.randrange(changes)) is None
        if cache.exists():
            Cache(cache)
            assert content(cache) in (whole[11][0], whole[12][0]), "a part of a cache"
    assert {path.name for path in cache.parent.iterdir() if path.name[0] != "."} <= {
        "cache",
        "stages",
    }
    assert run(roots[11], tmp_path, 1) is not None
    assert content(cache) == whole[11][0]
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
