"""How many processes stage 1 starts."""

from __future__ import annotations

from pathlib import Path

from joblib import Parallel

from lib.preprocess import collection
from lib.preprocess.collection import raw_files, write_cache
from lib.tpugraphs.roots import DataRoot
from tests.builders import COLLECTION
from tests.synthetic import write_collection


def test_no_more_start_than_there_is_work(tmp_path, monkeypatch):
    asked: list[int] = []

    def parallel(jobs: int, **how: object) -> Parallel:
        asked.append(jobs)
        return Parallel(1, **how)

    monkeypatch.setattr(collection, "Parallel", parallel)
    write_collection(tmp_path / "data", COLLECTION, train=3, valid=1, test=1)
    root = DataRoot(tmp_path / "data", tmp_path / "data" / "npz")
    files = raw_files(root, Path(*COLLECTION.split("-")))
    assert len(write_cache(tmp_path / "cache", files, {"hops": 1}, jobs=100_000)[0]) == 5
    assert asked == [5]
