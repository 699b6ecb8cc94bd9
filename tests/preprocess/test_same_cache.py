"""A cache that would be written again as it is stays, so that no reader is disturbed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lib.cache.format import MANIFEST
from lib.cache.reader import Cache
from lib.preprocess.collection import raw_files, write_cache
from lib.tpugraphs.roots import DataRoot
from tests.builders import COLLECTION
from tests.synthetic import write_collection


@pytest.fixture
def cache(tmp_path) -> Path:
    """The cache of a small collection, written long ago."""
    write_collection(tmp_path / "data", COLLECTION, train=2, valid=1, test=1)
    path = write(tmp_path, hops=1)
    os.utime(path / MANIFEST, (0, 0))
    return path


def write(folder: Path, hops: int) -> Path:
    root = DataRoot(folder / "data", folder / "data" / "npz")
    files = raw_files(root, Path(*COLLECTION.split("-")))
    table, _ = write_cache(folder / "cache", files, {"hops": hops})
    assert set(Cache(folder / "cache").rows) == set(table["graph"])
    assert sorted(path.name for path in folder.iterdir()) == ["cache", "data"]
    return folder / "cache"


def test_the_same_cache_stays(cache, tmp_path):
    before = cache.stat().st_ino
    write(tmp_path, hops=1)
    assert cache.stat().st_ino == before
    assert (cache / MANIFEST).stat().st_mtime == 0


def test_another_one_takes_its_place(cache, tmp_path):
    before = cache.stat().st_ino
    write(tmp_path, hops=2)
    assert cache.stat().st_ino != before
    assert Cache(cache).manifest["settings"] == {"hops": 2}


@pytest.mark.parametrize("name", ["cells.bin", "graphs.parquet", MANIFEST])
@pytest.mark.parametrize("how", ["damaged", "missing"])
def test_a_damaged_one_is_replaced(cache, tmp_path, name, how):
    if how == "missing":
        (cache / name).unlink()
    else:
        content = bytearray((cache / name).read_bytes())
        content[len(content) // 2] ^= 1
        (cache / name).write_bytes(content)
    write(tmp_path, hops=1)
