"""A batch is what was asked for, in as few rows as can be; scores of all batches."""

from __future__ import annotations

import tracemalloc
from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.cache.codec import decode_layouts
from lib.compiler.tpu import PRODUCT_FEATURES
from lib.files.errors import UserError
from lib.models.common.build import build_network, network_for
from lib.models.tgraph import inputs
from lib.models.tgraph.inputs import INPUT, graph_tensors, score_groupings, score_in_batches
from lib.ranking.metrics import ranking_metrics
from lib.runs.memory import memory_errors
from tests.builders import cached_graph, tiny_settings
from tests.compiler.builders import Builder


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
    program, nodes = batch.program, batch.nodes
    digits = program.digits[batch.codes]  # (r, 18)
    wanted = decode_layouts(graph.dictionary[graph.cells[rows]])  # (b, k, 18)
    assert np.array_equal((digits[batch.cells] - 1).permute(1, 0, 2), wanted)

    others = np.setdiff1d(np.arange(len(graph.node_opcode)), graph.config_nodes)
    order = np.concatenate([graph.config_nodes, others])
    for place, node in enumerate(order):
        configurable = place < len(graph.config_nodes)
        at = batch.cells[place] if configurable else [place - len(graph.config_nodes)]
        for row in at:
            assert np.array_equal(program.features[nodes[row]], graph.node_feat[node, :134])
            assert np.array_equal(program.layout[nodes[row]] - 1, graph.node_feat[node, 134:])
            assert program.opcode[nodes[row]] == graph.node_opcode[node]
            assert configurable or (digits[row] == 0).all()


@given(graphs_and_rows())
def test_a_batch_has_a_row_for_each_distinct_pair_only(case):
    graph, rows = case
    batch = graph_tensors(graph).batch(rows)
    pairs = sum(len(np.unique(graph.cells[rows, k])) for k in range(len(graph.config_nodes)))
    others = len(graph.node_opcode) - len(graph.config_nodes)
    assert len(batch.nodes) == others + pairs
    used = torch.cat([torch.arange(others), batch.cells.flatten()]).unique()
    assert len(used) == others + pairs


def test_types_and_moving():
    batch = graph_tensors(cached_graph(), physics=True).batch(np.arange(3))
    assert batch.node_count == 12
    moved = batch.to("meta")
    for whole, there in ((batch, moved), (batch.program, moved.program)):
        for name in (one.name for one in fields(whole) if one.name != "program"):
            assert getattr(there, name).device.type == "meta"
            floats = name in ("features", "physics")
            assert getattr(whole, name).dtype == (torch.float32 if floats else torch.int64)
    assert batch.to("meta").program is moved.program  # it goes there once


def test_physical_columns_of_a_dot():
    """Of a product of (4096, 512) and (512, 40), whose output has 40 or 4,096 of 128 lanes."""
    made = Builder()
    rows, columns = made.add("parameter", (4096, 512)), made.add("parameter", (512, 40))
    dot = made.add("dot", (4096, 40), rows, columns)
    graph = made.graph([dot], [[[order, (), ()]] for order in ((), (0, 1), (1, 0))])
    tensors = graph_tensors(graph, physics=True)
    batch = tensors.batch(np.arange(3))
    assert (batch.physics[:2] == 0).all()  # of the two parameters
    unset, narrow, wide = (
        dict(zip(PRODUCT_FEATURES, batch.physics[row].tolist(), strict=True))
        for row in batch.cells[0]
    )
    assert unset["dot"] == 1 and unset["convolution"] == 0
    assert unset["work"] == pytest.approx(np.log2(4096 * 40 * 512) / 20)
    assert [one["output.set"] for one in (unset, narrow, wide)] == [0, 1, 1]
    lanes = [one["output.lanes"] for one in (unset, narrow, wide)]
    assert lanes == pytest.approx([np.log2(128 / 40) / 8, 0, np.log2(128 / 40) / 8])
    assert unset["kernel.rank"] == 0.5
    for row in range(3):  # alone or together
        alone = tensors.batch(np.array([row]))
        assert torch.equal(alone.physics[alone.cells], batch.physics[batch.cells[:, row : row + 1]])


def test_physical_columns_of_no_weight_change_no_score():
    graph, chosen = cached_graph(), tiny_settings(precision="float32")
    rows = np.arange(len(graph.runtime))
    read = tiny_settings(precision="float32", physics=True)
    torch.manual_seed(0)
    plain, wide = network_for(chosen).eval(), network_for(read).eval()
    weights = plain.state_dict()
    columns = torch.zeros(len(weights["first.weight"]), len(PRODUCT_FEATURES))
    assert INPUT.prepare(graph, chosen).batch(np.arange(5)).physics is None
    with pytest.raises(RuntimeError, match="size mismatch for first"):
        wide.load_state_dict(weights)
    weights["first.weight"] = torch.cat([weights["first.weight"], columns], dim=1)
    wide.load_state_dict(weights)
    scores = [
        INPUT.scores(network, INPUT.prepare(graph, one), 4, rows)
        for network, one in ((plain, chosen), (wide, read))
    ]
    np.testing.assert_allclose(*scores, rtol=0, atol=1e-6)
    with torch.no_grad():
        wide.first.weight[:, -len(PRODUCT_FEATURES) :] = 1
    assert not np.allclose(INPUT.scores(wide, INPUT.prepare(graph, read), 4, rows), scores[0])


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_groupings_equal_batches_by_themselves(blocks, precision):
    torch.manual_seed(0)
    network = build_network(tiny_settings(channels=64, blocks=blocks, precision=precision)).eval()
    graph = graph_tensors(cached_graph(configurations=23))
    orders = np.stack([np.random.default_rng(seed).permutation(23) for seed in range(4)])
    found = score_groupings(network, graph, orders, 6)
    alone = np.stack([score_in_batches(network, graph, order, 6) for order in orders])
    scale = alone.std()
    tolerance = 1e-4 if precision == "float32" else 0.05
    np.testing.assert_allclose(found, alone, rtol=0, atol=tolerance * scale)
    assert (found.std(axis=0) > 0).any()  # the groupings do differ


def test_more_than_memory_holds_is_grouped_in_pools(monkeypatch):
    """With room for one batch only, each batch of the first order is a pool."""
    network = build_network(tiny_settings(channels=64, precision="float32")).eval()
    if not network.shares():
        pytest.skip("no C++ compiler: nothing is shared")
    monkeypatch.setattr(inputs, "POOL_BYTES", 1)
    graph = graph_tensors(cached_graph(configurations=23))
    orders = np.stack([np.random.default_rng(seed).permutation(23) for seed in range(3)])
    found = score_groupings(network, graph, orders, 6)
    first = score_in_batches(network, graph, orders[0], 6)
    for scores in found:
        np.testing.assert_allclose(scores, first, rtol=0, atol=1e-4 * first.std())


def test_a_hundred_thousand_configurations_take_no_more_memory(tmp_path):
    """Batches are streamed: ten times the configurations, the same peak but for the scores."""
    network = build_network(tiny_settings()).eval()
    peaks = []
    for count in (10_000, 100_000):
        graph = cached_graph(nodes=4, configurable=2, configurations=count, triples=6)
        cells = np.lib.format.open_memmap(
            tmp_path / f"{count}.npy", mode="w+", dtype=np.uint8, shape=graph.cells.shape
        )
        cells[:] = graph.cells
        tensors = graph_tensors(replace(graph, cells=cells))
        tracemalloc.start()
        scores = score_in_batches(network, tensors, np.arange(count), 1000)
        metrics = ranking_metrics(scores, graph.runtime)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert np.isfinite(list(metrics.values())).all()
    assert peaks[1] - peaks[0] < 100_000 * 8 * 30  # a few arrays of scores, no table of pairs


def test_more_memory_than_is_free_is_one_line(monkeypatch):
    monkeypatch.setattr("lib.runs.memory.free_memory", lambda: 1)
    with (
        pytest.raises(UserError, match=r"^out of memory: scoring of tgraph, .* --configurations"),
        memory_errors("scoring of tgraph", INPUT.takes_less, torch.device("cpu")),
    ):
        torch.empty(1 << 30)
    torch.empty(1 << 30)  # which is not held to it any more
