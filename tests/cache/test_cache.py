"""Writing a cache and reading it back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lib.cache.format import LAYOUT
from lib.cache.graph import CachedGraph
from lib.cache.reader import Cache
from lib.cache.writer import CacheWriter
from lib.files.artifacts import write_json
from lib.files.errors import DataError
from tests.builders import cached_graph
from tests.graphs import compress
from tests.kernels import cached_kernel
from tests.synthetic import layout_graph


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
    graphs = [
        cached_graph(1, name="bytes.v1.0", configurations=7, configurable=3),
        cached_graph(2, name="words", split="valid", configurations=5, triples=300),
        wide,
        cached_graph(4, name="bytes", configurations=3, configurable=1),
        cached_graph(5, name="no_edges", edges=0, configurations=1),
    ]
    return [with_effects(graph, count) for count, graph in enumerate(graphs)]


def with_effects(graph: CachedGraph, count: int) -> CachedGraph:
    """A graph with so many effects, each under its first configuration."""
    rng = np.random.default_rng(count)
    numbers = np.arange(count)
    return replace(
        graph,
        effects=rng.integers(-1, len(graph.node_opcode), (count, 3)).astype(np.int32),
        effect_sizes=rng.random(count).astype(np.float32),
        effect_feat=rng.random(3 * count).astype(np.float16),
        happens=np.column_stack([np.zeros_like(numbers), numbers]).astype(np.int32),
    )


def test_round_trip_of_mixed_graphs(tmp_path):
    graphs = mixed_graphs()
    cache = write(tmp_path / "cache", graphs)
    assert {graph.cells.dtype.itemsize for graph in graphs} == {1, 2, 4}
    for graph in graphs:
        found = cache.graph(graph.name)
        assert (found.name, found.split) == (graph.name, graph.split)
        assert found.labelled == (graph.name != "wide")
        for name in LAYOUT.arrays:
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


def test_the_compilers_own_configuration_is_the_one_that_sets_no_layout():
    raw = layout_graph("g", 0)
    raw.node_config_feat[:, 0] = 0
    assert compress(raw, "train", 1).compilers_own is None  # all but one node will not do
    raw.node_config_feat[[5, 9]] = -1
    assert compress(raw, "train", 1).compilers_own == 5  # in the order of the source


def test_a_kernel_without_labels_or_normalizers_has_no_default():
    kernel = cached_kernel("k", 0)
    kernel.normalizer[:] = kernel.runtime[7]
    assert kernel.compilers_own == 7
    assert replace(kernel, normalizer=0 * kernel.normalizer).compilers_own is None
    # As official test files are, whose runtimes are 0 and normalizers 1.
    unlabelled = replace(kernel, runtime=0 * kernel.runtime, normalizer=kernel.normalizer**0)
    assert unlabelled.compilers_own is None


def test_arrays_are_read_only_views_of_the_files(tmp_path):
    cache = write(tmp_path / "cache", mixed_graphs())
    cells = cache.graph("words").cells
    assert np.shares_memory(cells, cache.arrays["cells"])
    with pytest.raises(ValueError, match="read-only"):
        cells[0, 0] = 1


@pytest.mark.parametrize("name", LAYOUT.arrays)
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


def changed(manifest, **values):
    return {**manifest, **values}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: [m], "document: found"),
        (lambda m: 3, "document: found 3, expected an object"),
        (lambda m: None, "document: found None, expected an object"),
        (lambda m: {}, "format: found none, of an older version, expected 4"),
        (lambda m: {k: v for k, v in m.items() if k != "format"}, "format: found none"),
        (lambda m: changed(m, format=[2]), r"format: found \[2\], expected 4"),
    ],
)
def test_a_manifest_of_another_kind(tmp_path, change, message):
    cache = write(tmp_path / "cache", mixed_graphs())
    write_json(cache.folder / "manifest.json", change(cache.manifest))
    told = rf"manifest\.json: {message}.*; delete .*, then run 01_preprocess\.py"
    with pytest.raises(DataError, match=told):
        Cache(cache.folder)


@pytest.mark.parametrize("content", ["{", "[" * 100_000, "9" * 5000])
def test_a_manifest_that_is_not_json(tmp_path, content):
    write(tmp_path / "cache", mixed_graphs())
    (tmp_path / "cache" / "manifest.json").write_text(content)
    with pytest.raises(DataError, match=r"manifest\.json"):
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
