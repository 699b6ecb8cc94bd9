"""Worker processes that start while files are listed."""

from __future__ import annotations

import os
from pathlib import Path

from joblib import Parallel

from lib.preprocess import collection, workers
from lib.preprocess.collection import raw_files, write_cache
from lib.preprocess.workers import workers_starting
from lib.tpugraphs.roots import DataRoot
from tests.builders import COLLECTION
from tests.synthetic import write_collection


def children() -> set[str]:
    """Processes that this one has started, in whichever thread."""
    threads = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {process for thread in threads for process in thread.read_text().split()}


def write(folder: Path, jobs: int = 2) -> int:
    root = DataRoot(folder / "data", folder / "data" / "npz")
    files = raw_files(root, Path(*COLLECTION.split("-")))
    return len(write_cache(folder / "cache", files, {"hops": 1}, jobs)[0])


def test_those_that_started_early_do_the_work(tmp_path):
    write_collection(tmp_path / "data", COLLECTION, train=3, valid=1, test=1)
    with workers_starting(2):
        pass
    early = children()
    assert len(early) >= 2
    assert write(tmp_path) == 5
    assert children() == early


def test_no_more_start_than_there_is_work(tmp_path, monkeypatch):
    asked: list[int] = []

    def parallel(jobs: int, **how: object) -> Parallel:
        asked.append(jobs)
        return Parallel(1, **how)

    monkeypatch.setattr(collection, "Parallel", parallel)
    write_collection(tmp_path / "data", COLLECTION, train=3, valid=1, test=1)
    assert write(tmp_path, jobs=100_000) == 5
    assert asked == [5]


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
