"""States of nodes that are computed once for many configurations: the same as one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lib.compiler.cpu.nodes import NODE_FEATURES, node_features
from lib.inputs.copies import CopiesGraph, widths
from lib.models.plus import LARGEST_LOGARITHM, TGraphPlus
from lib.settings import PlusSettings
from tests.bench.plus_reference import PlainTGraphPlus
from tests.compiler.builders import random_programs

CHANNELS = 5


def network_of(blocks: int, members: int = 1) -> TGraphPlus:
    """One without dropout, with an addend that is not zero."""
    torch.manual_seed(0)
    sizes = widths(PlusSettings("layout-xla-default", hardware="cpu"))
    made = TGraphPlus(
        **sizes,
        channels=8,
        members=members,
        context_blocks=blocks,
        context_channels=CHANNELS,
        context_dropout=0.0,
    ).eval()
    nn.init.normal_(made.addend.perceptrons.last.weight)
    return made


def one_by_one(network: TGraphPlus, prepared: CopiesGraph, configuration: int) -> float:
    """The score of a configuration, every node computed, as the docstrings have it."""
    effects = prepared._effects(np.array([configuration]))[0]
    graph = prepared.tables.facts.graph
    states = network.context.node(torch.from_numpy(node_features(graph)))[0]
    copies = network.inputs.copies(torch.from_numpy(prepared.program.copies.features))
    operations = network.inputs.off_layout(torch.from_numpy(prepared.program.off_layout.features))
    copied, read = (weigh(copies)[0] for weigh in (network.context.copied, network.context.read))
    off_layout = network.context.off_layout(operations)[0]
    for number in effects.copies.tolist():
        tensor, reader = prepared.program.copies.nodes[number]
        states[tensor] = states[tensor] + copied[number]
        states[reader] = states[reader] + read[number]
    for number in effects.off_layout.tolist():
        (node,) = prepared.program.off_layout.nodes[number]
        states[node] = states[node] + off_layout[number]
    for block in network.context.blocks:
        normed = block.norm(states[:, None])[:, 0]
        states = states + nn.functional.gelu(heard(block, normed, graph))
    score = 0.0
    for number in effects.copies.tolist():
        tensor, reader = prepared.program.copies.nodes[number]
        around = torch.cat([copies[number], states[tensor], states[reader]])
        logarithm = network.copy_cost(copies[[number]]) + network.addend.perceptrons(around[None])
        cost = logarithm.clamp(max=LARGEST_LOGARITHM).exp().item()
        score += cost * float(prepared.program.copies.shares[number])
    for number in effects.off_layout.tolist():
        cost = network.off_layout_cost(operations[[number]]).item()
        score += cost * float(prepared.program.off_layout.shares[number])
    return score


def heard(block: nn.Module, normed: torch.Tensor, graph: object) -> torch.Tensor:
    """What each node hears."""
    rows = []
    for node in range(len(normed)):
        (own, operands, users), (bias,) = block.heard.weight[0].chunk(3, dim=1), block.heard.bias
        total = bias + own @ normed[node]
        for side, weight in ((graph.operands, operands), (graph.users, users)):
            if side[node]:
                total = total + weight @ normed[side[node]].mean(dim=0)
        rows.append(total)
    return torch.stack(rows)


@given(program=random_programs(), blocks=st.integers(1, 3))
@settings(deadline=None, max_examples=15)
def test_scores_are_those_of_every_node_computed(program, blocks):
    made, configurable, configured = program
    graph = made.graph(configurable, [[((), (), ())] * len(configurable), *configured])
    prepared = CopiesGraph(graph, blocks)
    network, count = network_of(blocks), len(graph.cells)
    with torch.no_grad():
        scores = network(prepared.batch(np.arange(count))).tolist()
        for configuration in range(count):
            wanted = one_by_one(network, prepared, configuration)
            assert scores[configuration] == pytest.approx(wanted, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("compiled", [True, False])
@given(program=random_programs())
@settings(deadline=None, max_examples=10)
def test_members_at_once_are_members_one_by_one(compiled, program):
    made, configurable, configured = program
    prepared = CopiesGraph(made.graph(configurable, configured), 2)
    batch = prepared.batch(np.arange(len(prepared.graph.cells)))
    network = network_of(2, members=2).train()
    plain = PlainTGraphPlus(network)
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr("lib.native.available", lambda: False)
        torch.testing.assert_close(network(batch), plain(batch), atol=1e-5, rtol=1e-4)


@given(program=random_programs())
@settings(deadline=None, max_examples=15)
def test_states_are_computed_once(program):
    made, configurable, configured = program
    graph = made.graph(configurable, configured * 3)
    prepared = CopiesGraph(graph, 2)
    count = len(graph.cells) // 3
    once, thrice = prepared.batch(np.arange(count)), prepared.batch(np.arange(3 * count))
    assert torch.equal(once.context.node, thrice.context.node)
    assert torch.equal(once.context.copies, thrice.context.copies)
    assert len(thrice.context.copy_places) == 3 * len(once.context.copy_places)


def test_features_of_nodes_say_what_they_are():
    assert (
        len(set(NODE_FEATURES))
        == len(NODE_FEATURES)
        == widths(PlusSettings("layout-xla-default", hardware="cpu"))["node_width"]
    )
