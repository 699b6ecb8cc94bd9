"""What graphs of one program share: the same batches as without, and nothing that outlives them."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings

from lib.inputs.copies import CopiesGraph
from lib.inputs.shared import _IN_USE
from tests.compiler.builders import random_programs


@given(program=random_programs())
@settings(deadline=None, max_examples=20)
def test_a_batch_does_not_depend_on_who_shares_the_program(program):
    made, configurable, configured = program
    graph = made.graph(configurable, configured)
    rows = np.arange(len(graph.cells))
    alone = CopiesGraph(graph, "return", "cpu", 2).batch(rows)
    backwards = CopiesGraph(made.graph(configurable, configured[::-1]), "return", "cpu", 2)
    backwards.batch(rows)
    beside = CopiesGraph(graph, "return", "cpu", 2)
    assert beside.program is backwards.program
    again = beside.batch(rows)
    for name in ("copies", "copy_bytes", "copy_places", "off_layout", "repeated"):
        assert torch.equal(getattr(alone, name), getattr(again, name)), name
    assert torch.equal(alone.context.copies, again.context.copies)


@pytest.fixture
def hasty():
    """Threads that take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@given(program=random_programs())
@settings(
    deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_threads_may_share_a_program(hasty, program):
    made, configurable, configured = program
    rows = np.arange(len(configured))
    graphs = [made.graph(configurable, configured[k:] + configured[:k]) for k in range(4)]
    alone = []
    for graph in graphs:
        alone.append(CopiesGraph(graph, "return", "cpu", 2).batch(rows))
        _IN_USE.clear()
    with ThreadPoolExecutor(len(graphs)) as pool:
        made_of = pool.map(lambda graph: CopiesGraph(graph, "return", "cpu", 2).batch(rows), graphs)
        for wanted, found in zip(alone, made_of, strict=True):
            assert torch.equal(wanted.copies, found.copies)
            assert torch.equal(wanted.copy_places, found.copy_places)
            assert torch.equal(wanted.context.copies, found.context.copies)


@given(program=random_programs())
@settings(deadline=None, max_examples=5)
def test_what_differs_is_not_shared(program):
    made, configurable, configured = program
    graph = made.graph(configurable, configured)
    one = CopiesGraph(graph, "return", "cpu")
    features = graph.node_feat.copy()
    features[0, 0] += 1
    others = (
        CopiesGraph(graph, "return", "tpu"),
        CopiesGraph(replace(graph, node_feat=features), "return", "cpu"),
    )
    assert len({id(each.program) for each in (one, *others)}) == 3


@given(program=random_programs())
@settings(deadline=None, max_examples=3)
def test_a_program_is_forgotten_with_its_last_graph(program):
    made, configurable, configured = program
    gc.collect()
    before = set(_IN_USE.keys())
    graph = CopiesGraph(made.graph(configurable, configured), "return", "cpu")
    new = set(_IN_USE.keys()) - before
    assert len(new) == 1
    del graph
    gc.collect()
    assert not new & set(_IN_USE.keys())
