"""A small collection to search on."""

from __future__ import annotations

import pytest

from lib.cache.reader import Cache
from tests.builders import split_cache


@pytest.fixture(scope="session")
def cache(tmp_path_factory) -> Cache:
    """Eight graphs in three splits."""
    return split_cache(tmp_path_factory.mktemp("tune") / "cache", 20)
