"""Batches that lie on disk: the same ones, of the same graph, or made anew."""

from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings

from lib.cache.graph import CachedGraph
from lib.inputs import kept
from lib.inputs.copies import CopiesGraph
from lib.models.plus import CostBatch
from tests.compiler.builders import random_programs


def whole(graph: CachedGraph, blocks: int = 2) -> CostBatch:
    return CopiesGraph(graph, blocks).batch(np.arange(len(graph.cells)))


def assert_same(one: CostBatch, other: CostBatch) -> None:
    parts, others = dict(kept._tensors(one)), dict(kept._tensors(other))
    assert parts.keys() == others.keys()
    for name, part in parts.items():
        assert part.dtype == others[name].dtype and torch.equal(part, others[name]), name


def made_anew(monkeypatch, graph: CachedGraph, blocks: int = 2) -> bool:
    """Whether the graph's batch is worked out, not read; it is right in either case."""
    calls = []
    monkeypatch.setattr(
        CopiesGraph, "_made", lambda *args, made=CopiesGraph._made: calls.append(1) or made(*args)
    )
    found = whole(graph, blocks)
    monkeypatch.undo()
    assert_same(found, whole(replace(graph, folder=None), blocks))
    return bool(calls)


@pytest.fixture
def graph(tmp_path: Path) -> CachedGraph:
    """A small graph of a cache, whose batch is on disk."""
    found: list[CachedGraph] = []

    @given(program=random_programs())
    @settings(deadline=None, max_examples=5, database=None, derandomize=True)
    def draw(program) -> None:
        made, configurable, configured = program
        found.append(made.graph(configurable, configured))

    draw()
    graph = replace(max(found, key=lambda one: one.cells.size), folder=tmp_path / "cache-all")
    whole(graph)
    return graph


def file_of(graph: CachedGraph) -> Path:
    return graph.folder.with_name("resolved") / f"{graph.name}.safetensors"


@pytest.mark.parametrize("blocks", [1, 3])
@given(program=random_programs())
@settings(deadline=None, max_examples=20)
def test_what_is_read_is_what_was_made(blocks, program):
    made, configurable, configured = program
    graph = made.graph(configurable, configured)
    with TemporaryDirectory() as folder:
        cached = replace(graph, folder=Path(folder, "cache-all"))
        assert_same(whole(cached, blocks), whole(graph, blocks))
        assert file_of(cached).exists()
        assert_same(whole(cached, blocks), whole(graph, blocks))


def test_it_is_read_where_nothing_differs_and_made_where_something_does(monkeypatch, graph):
    assert not made_anew(monkeypatch, graph)
    assert made_anew(monkeypatch, graph, blocks=1)
    assert not made_anew(monkeypatch, graph, blocks=1)
    features = graph.node_feat.copy()
    features[0, 20] += 1
    assert made_anew(monkeypatch, replace(graph, node_feat=features))
    assert made_anew(monkeypatch, replace(graph, cells=graph.cells[::-1]))


def test_it_is_made_again_by_other_code(monkeypatch, graph):
    monkeypatch.setattr(kept, "_code", lambda: {"code": {"lib/compiler/orders.py": "another"}})
    calls = []
    kept.kept_batch(graph, 2, lambda: calls.append(1) or whole(replace(graph, folder=None)))
    assert calls


def test_a_damaged_file_is_made_again(monkeypatch, graph):
    content = bytearray(file_of(graph).read_bytes())
    content[-1] ^= 1
    file_of(graph).write_bytes(content)
    assert made_anew(monkeypatch, graph)
    assert not made_anew(monkeypatch, graph)


def test_where_nothing_can_be_written_it_is_made_each_time(monkeypatch, graph):
    file_of(graph).unlink()
    file_of(graph).parent.rmdir()
    file_of(graph).parent.write_text("no folder")
    assert made_anew(monkeypatch, graph)
    assert made_anew(monkeypatch, graph)
