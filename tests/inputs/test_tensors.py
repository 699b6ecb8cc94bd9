"""A batch decodes to exactly the configurations that were asked for, in as few rows as can be."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.cache.codec import decode_layouts
from lib.inputs.tensors import graph_tensors
from tests.builders import cached_graph


@st.composite
def graphs_and_rows(draw):
    nodes = draw(st.integers(1, 9))
    graph = cached_graph(
        draw(st.integers(0, 10_000)),
        nodes=nodes,
        configurable=draw(st.integers(1, nodes)),
        edges=draw(st.integers(0, 12)),
        configurations=draw(st.integers(1, 12)),
        triples=draw(st.sampled_from([1, 3, 400])),
    )
    rows = draw(st.lists(st.integers(0, len(graph.cells) - 1), min_size=1, max_size=15))
    return graph, np.array(rows)


@given(graphs_and_rows())
@settings(max_examples=80, deadline=None)
def test_a_batch_decodes_to_the_configurations_asked_for(case):
    graph, rows = case
    batch = graph_tensors(graph).batch(rows)
    wanted = decode_layouts(graph.dictionary[graph.cells[rows]])  # (b, k, 18)
    assert np.array_equal((batch.config[batch.cells] - 1).permute(1, 0, 2), wanted)

    others = np.setdiff1d(np.arange(len(graph.node_opcode)), graph.config_nodes)
    order = np.concatenate([graph.config_nodes, others])
    for place, node in enumerate(order):
        configurable = place < len(graph.config_nodes)
        at = batch.cells[place] if configurable else [place - len(graph.config_nodes)]
        for row in at:
            assert np.array_equal(batch.features[row], graph.node_feat[node, :134])
            assert np.array_equal(batch.layout[row] - 1, graph.node_feat[node, 134:])
            assert batch.opcode[row] == graph.node_opcode[node]
            assert configurable or (batch.config[row] == 0).all()


@given(graphs_and_rows())
@settings(max_examples=40, deadline=None)
def test_a_batch_has_a_row_for_each_distinct_pair_only(case):
    graph, rows = case
    batch = graph_tensors(graph).batch(rows)
    pairs = sum(len(np.unique(graph.cells[rows, k])) for k in range(len(graph.config_nodes)))
    others = len(graph.node_opcode) - len(graph.config_nodes)
    assert len(batch.opcode) == others + pairs
    used = torch.cat([torch.arange(others), batch.cells.flatten()]).unique()
    assert len(used) == others + pairs


def test_edges_are_renumbered_with_the_nodes():
    graph = cached_graph(3, nodes=7, configurable=3, edges=9)
    batch = graph_tensors(graph).batch(np.arange(2))
    others = np.setdiff1d(np.arange(7), graph.config_nodes)
    order = np.concatenate([graph.config_nodes, others])
    found = {
        (order[i], order[j])
        for i in range(7)
        for j in batch.sources[batch.pointers[i] : batch.pointers[i + 1]].tolist()
    }
    edges = {(int(u), int(v)) for u, v in graph.edges}
    assert found == edges | {(v, u) for u, v in edges}


def test_types_and_moving():
    batch = graph_tensors(cached_graph()).batch(np.arange(3))
    assert batch.node_count == 12
    assert batch.features.dtype == torch.float32
    moved = batch.to("meta")
    for one in fields(batch):
        assert getattr(moved, one.name).device.type == "meta"
        if one.name != "features":
            assert getattr(batch, one.name).dtype == torch.int64
