"""Worker processes that start while files are listed."""

from __future__ import annotations

import os
from pathlib import Path

from lib.preprocess import workers
from lib.preprocess.collection import raw_files, write_cache
from lib.preprocess.workers import workers_starting
from lib.tpugraphs.roots import DataRoot
from tests.builders import COLLECTION
from tests.synthetic import write_collection


def children() -> set[str]:
    """Processes that this one has started, in whichever thread."""
    threads = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {process for thread in threads for process in thread.read_text().split()}


def write(folder: Path) -> int:
    root = DataRoot(folder / "data", folder / "data" / "npz")
    files = raw_files(root, Path(*COLLECTION.split("-")))
    return len(write_cache(folder / "cache", files, {"hops": 1}, jobs=2)[0])


def test_those_that_started_early_do_the_work(tmp_path):
    write_collection(tmp_path / "data", COLLECTION, train=3, valid=1, test=1)
    with workers_starting(2):
        pass
    early = children()
    assert len(early) >= 2
    assert write(tmp_path) == 5
    assert children() == early


def test_one_job_needs_none(monkeypatch):
    monkeypatch.setattr(workers, "_start_workers", lambda jobs: 1 / 0)
    before = children()
    with workers_starting(1):
        pass
    assert children() == before


def test_a_start_that_fails_is_told_by_who_needs_them(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_start_workers", lambda jobs: 1 / 0)
    write_collection(tmp_path / "data", COLLECTION, train=1, valid=1, test=1)
    with workers_starting(2):
        pass
    assert write(tmp_path) == 3
