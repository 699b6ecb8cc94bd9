"""A small collection to search on."""

from __future__ import annotations

import pytest

from lib.cache.reader import Cache
from lib.cache.writer import CacheWriter
from tests.builders import cached_graph


@pytest.fixture(scope="session")
def cache(tmp_path_factory) -> Cache:
    """Eight graphs in three splits."""
    folder = tmp_path_factory.mktemp("tune") / "cache"
    folder.mkdir()
    writer = CacheWriter(folder)
    for index in range(8):
        split = ("train", "valid", "test")[index % 3]
        writer.add(cached_graph(index, name=f"g{index}", split=split, configurations=20), {})
    writer.finish({"fingerprint": "0", "settings": {}})
    return Cache(folder)
