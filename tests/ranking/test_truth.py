"""True runtimes, from a cache or from raw files, and from what is measured apart."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lib.files.errors import DataError
from lib.ranking.truth import CachedLabels, RawLabels, Truth
from lib.tpugraphs.npz import LayoutGraph, write_layout, write_tile
from lib.tpugraphs.roots import DataRoot
from tests.builders import cache_of
from tests.graphs import compress
from tests.kernels import cached_kernel, tile_kernel
from tests.synthetic import layout_graph

LAYOUT, TILE = Path("layout", "xla", "default"), Path("tile", "xla")
COUNT = 20  # configurations of each graph


@pytest.fixture(scope="module")
def graphs() -> dict[str, LayoutGraph]:
    """One graph a split, by the split's name; the test split is not labelled."""
    made = {split: layout_graph(split, seed) for seed, split in enumerate(("train", "valid"))}
    test = layout_graph("test", 2)
    return {**made, "test": replace(test, config_runtime=np.zeros(COUNT, np.int64))}


@pytest.fixture(scope="module")
def cached(tmp_path_factory, graphs) -> CachedLabels:
    entries = (compress(graph, name, hops=1) for name, graph in graphs.items())
    return CachedLabels(cache_of(tmp_path_factory.mktemp("cache"), entries))


@pytest.fixture(scope="module")
def raw(tmp_path_factory, graphs) -> RawLabels:
    folder = tmp_path_factory.mktemp("raw")
    for name, graph in graphs.items():
        write_layout(folder / LAYOUT / name / f"{name}.npz", graph)
    return RawLabels(DataRoot(folder, folder), LAYOUT)


@pytest.fixture(params=["cached", "raw"])
def labels(request) -> CachedLabels | RawLabels:
    return request.getfixturevalue(request.param)


def measured(graph: str, runtimes: list[int]) -> pl.DataFrame:
    rows = pl.DataFrame({"graph": graph, "config": range(len(runtimes)), "runtime": runtimes})
    return rows.sample(fraction=1, shuffle=True, seed=0)


def test_what_is_measured_apart_counts_where_a_graph_has_no_labels(labels):
    apart = list(range(5, 5 + COUNT))
    assert Truth(labels).runtimes("test") is None
    assert Truth(labels, measured("test", apart)).runtimes("test").tolist() == apart
    assert Truth(labels, measured("test", apart[:-1])).runtimes("test") is None
    assert Truth(labels, measured("train", apart)).runtimes("train").tolist() != apart


def test_equal_configurations_share_a_runtime_in_a_cache_only(cached, raw, graphs):
    own = graphs["train"].config_runtime
    assert np.array_equal(Truth(raw).runtimes("train"), own)
    original = cached.cache.graph("train").original
    least = [own[original == index].min() for index in original]
    assert Truth(cached).runtimes("train").tolist() == least
    assert least != own.tolist()


def test_tile_runtimes_are_divided_by_their_normalizers(tmp_path):
    kernel = cached_kernel("k", 0)
    cache = cache_of(tmp_path / "cache", [kernel], "tile")
    expected = kernel.runtime / kernel.normalizer
    assert np.array_equal(Truth(CachedLabels(cache)).runtimes("k"), expected)
    source = tile_kernel("k", 0)
    write_tile(tmp_path / TILE / "train" / "k.npz", source)
    found = RawLabels(DataRoot(tmp_path, tmp_path), TILE)
    expected = source.config_runtime / source.config_runtime_normalizers
    assert np.array_equal(Truth(found).runtimes("k"), expected)


def test_a_raw_file_that_cannot_be_believed_is_told(tmp_path):
    path = tmp_path / LAYOUT / "train" / "a.npz"
    path.parent.mkdir(parents=True)
    np.savez(path, config_runtime=np.array([1, 0]))
    with pytest.raises(DataError, match=r"a\.npz"):
        Truth(RawLabels(DataRoot(tmp_path, tmp_path), LAYOUT)).runtimes("a")
