"""What graphs of one program share: the same batches as without, and nothing that outlives them."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import torch
from hypothesis import given, settings

from lib.cache.graph import CachedGraph
from lib.inputs.copies import CopiesGraph
from lib.inputs.shared import _IN_USE
from lib.models.plus import CostBatch
from tests.compiler.builders import random_programs


def whole(graph: CachedGraph) -> CostBatch:
    """The batch of all configurations of a graph."""
    return CopiesGraph(graph, 2).batch(np.arange(len(graph.cells)))


def assert_same(one: CostBatch, other: CostBatch) -> None:
    for name in ("copies", "copy_bytes", "off_layout", "repeated"):
        assert torch.equal(getattr(one, name), getattr(other, name)), name
    assert torch.equal(one.context.copies, other.context.copies)
    assert torch.equal(one.context.copy_places, other.context.copy_places)


@contextmanager
def hasty():
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@given(program=random_programs())
@settings(deadline=None, max_examples=20)
def test_a_batch_does_not_depend_on_who_shares_the_program(program):
    made, configurable, configured = program
    graph = made.graph(configurable, configured)
    alone = whole(graph)
    backwards = CopiesGraph(made.graph(configurable, configured[::-1]), 2)
    backwards.batch(np.arange(len(graph.cells)))
    beside = CopiesGraph(graph, 2)
    assert beside.program is backwards.program
    assert_same(alone, beside.batch(np.arange(len(graph.cells))))


@given(program=random_programs())
@settings(deadline=None, max_examples=100)
def test_threads_may_share_a_program(program):
    made, configurable, configured = program
    graphs = [made.graph(configurable, configured[k:] + configured[:k]) for k in range(4)]
    alone = []
    for graph in graphs:
        alone.append(whole(graph))
        _IN_USE.clear()
    with hasty(), ThreadPoolExecutor(len(graphs)) as pool:
        for wanted, found in zip(alone, pool.map(whole, graphs), strict=True):
            assert_same(wanted, found)


@given(program=random_programs())
@settings(deadline=None, max_examples=5)
def test_what_differs_is_not_shared(program):
    made, configurable, configured = program
    graph = made.graph(configurable, configured)
    one = CopiesGraph(graph, 2)
    features = graph.node_feat.copy()
    features[0, 0] += 1
    other = CopiesGraph(replace(graph, node_feat=features), 2)
    assert one.program is not other.program


@given(program=random_programs())
@settings(deadline=None, max_examples=3)
def test_a_program_is_forgotten_with_its_last_graph(program):
    made, configurable, configured = program
    gc.collect()
    before = set(_IN_USE.keys())
    graph = CopiesGraph(made.graph(configurable, configured), 2)
    assert graph.program.tensors
    new = set(_IN_USE.keys()) - before
    assert len(new) == 1
    del graph
    gc.collect()
    assert not new & set(_IN_USE.keys())
