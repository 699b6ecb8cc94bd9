"""Writing a cache and reading it back."""

from __future__ import annotations

import numpy as np
import pytest

from lib.cache.format import FORMS
from lib.cache.graph import CachedGraph
from lib.cache.reader import Cache
from lib.cache.writer import CacheWriter
from lib.errors import DataError, UserError

from ..builders import cached_graph


def write(folder, graphs):
    folder.mkdir()
    writer = CacheWriter(folder)
    for graph in graphs:
        writer.add(graph, {"source_nodes": len(graph.node_opcode)})
    writer.finish({"fingerprint": "f" * 64, "settings": {}})
    return Cache(folder)


def mixed_graphs() -> list[CachedGraph]:
    """Cells of one, two and four bytes, of counts that are no multiple of the alignment."""
    wide = cached_graph(3, name="wide", split="test", labelled=False)
    wide = CachedGraph(**{**vars(wide), "cells": wide.cells.astype(np.uint32)})
    return [
        cached_graph(1, name="bytes.v1.0", configurations=7, configurable=3),
        cached_graph(2, name="words", split="valid", configurations=5, triples=300),
        wide,
        cached_graph(4, name="bytes", configurations=3, configurable=1),
        cached_graph(5, name="no_edges", edges=0, configurations=1),
    ]


def test_round_trip_of_mixed_graphs(tmp_path):
    graphs = mixed_graphs()
    cache = write(tmp_path / "cache", graphs)
    assert {graph.cells.dtype.itemsize for graph in graphs} == {1, 2, 4}
    for graph in graphs:
        found = cache.graph(graph.name)
        assert (found.name, found.split) == (graph.name, graph.split)
        assert found.labelled == (graph.name != "wide")
        for name in FORMS["layout"].arrays:
            expected, actual = getattr(graph, name), getattr(found, name)
            assert actual.dtype == expected.dtype, name
            assert np.array_equal(actual, expected), name
            assert actual.flags.aligned, name


def test_names_and_columns(tmp_path):
    cache = write(tmp_path / "cache", mixed_graphs())
    assert cache.names("train", "valid") == ["bytes", "bytes.v1.0", "no_edges", "words"]
    assert cache.names("test") == ["wide"]
    assert cache.fingerprint == "f" * 64
    assert cache.table["source_nodes"].to_list() == [12] * 5


def test_arrays_are_read_only_views_of_the_files(tmp_path):
    cache = write(tmp_path / "cache", mixed_graphs())
    cells = cache.graph("words").cells
    assert np.shares_memory(cells, cache.arrays["cells"])
    with pytest.raises(ValueError, match="read-only"):
        cells[0, 0] = 1


def test_a_few_rows_of_a_graph(tmp_path):
    graphs = mixed_graphs()
    cache = write(tmp_path / "cache", graphs)
    rows = np.array([4, 0, 4])
    assert np.array_equal(cache.graph("words").cells[rows], graphs[1].cells[rows])


@pytest.mark.parametrize("name", FORMS["layout"].arrays)
@pytest.mark.parametrize("change", ["shorter", "longer", "gone"])
def test_an_array_of_another_size_is_not_believed(tmp_path, name, change):
    write(tmp_path / "cache", mixed_graphs())
    path = tmp_path / "cache" / f"{name}.bin"
    if change == "gone":
        path.unlink()
    else:
        path.write_bytes(
            path.read_bytes()[:-1] if change == "shorter" else path.read_bytes() + b"0"
        )
    with pytest.raises(DataError, match=name):
        Cache(tmp_path / "cache")


def test_a_manifest_that_is_not_json(tmp_path):
    write(tmp_path / "cache", mixed_graphs())
    (tmp_path / "cache" / "manifest.json").write_text("{")
    with pytest.raises(DataError, match=r"manifest\.json"):
        Cache(tmp_path / "cache")


def test_no_cache_says_what_to_run(tmp_path):
    with pytest.raises(UserError, match=r"01_preprocess\.py"):
        Cache(tmp_path / "cache")


def test_entries_of_another_shape_are_refused(tmp_path):
    graph = cached_graph()
    bad = CachedGraph(**{**vars(graph), "node_feat": graph.node_feat[:, :139]})
    with pytest.raises(ValueError, match="node_feat"):
        CacheWriter(tmp_path).add(bad, {})


def test_graphs_of_several_writers(tmp_path):
    """What workers do: a graph each, put one after another by one process."""
    graphs = mixed_graphs()
    whole = write(tmp_path / "whole", graphs)
    (tmp_path / "joined").mkdir()
    with CacheWriter(tmp_path / "joined") as writer:
        for graph in graphs:
            part = tmp_path / f"part {graph.name}"
            part.mkdir()
            with CacheWriter(part) as other:
                other.add(graph, {"source_nodes": 12})
            writer.extend(part, other.rows)
        writer.finish({"fingerprint": "f" * 64, "settings": {}})
    for path in whole.folder.iterdir():
        assert path.read_bytes() == (tmp_path / "joined" / path.name).read_bytes(), path.name
