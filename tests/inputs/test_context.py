"""States of nodes that are computed once for many configurations: the same as one by one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lib.compiler.nodes import NODE_FEATURES, node_features
from lib.compiler.propagation import PROPAGATIONS
from lib.inputs.copies import CopiesGraph, widths
from lib.models.plus import LARGEST_LOGARITHM, Costs, TGraphPlus
from lib.settings import PlusSettings
from tests.compiler.builders import random_programs

CHANNELS = 5


def network_of(blocks: int) -> TGraphPlus:
    """One that only hears, with an addend that is not zero."""
    torch.manual_seed(0)
    sizes = widths(PlusSettings("layout-xla-default", hardware="cpu"))
    made = TGraphPlus(
        **sizes,
        channels=8,
        members=0,
        context_members=1,
        context_blocks=blocks,
        context_channels=CHANNELS,
    ).eval()
    nn.init.normal_(made.members[0].addend[-1].weight)
    return made


def one_by_one(network: TGraphPlus, prepared: CopiesGraph, configuration: int) -> float:
    """The score of a configuration, every node computed, as the docstrings have it."""
    (member,) = network.members
    effects = prepared._effects(np.array([configuration]))[0]
    graph = prepared.tables.facts.graph
    states = member.context.node(torch.from_numpy(node_features(graph)))
    copies = network.inputs.copies(torch.from_numpy(prepared._copies.features))
    operations = network.inputs.off_layout(torch.from_numpy(prepared._off_layout.features))
    for number in effects.copies.tolist():
        tensor, reader = prepared._copies.nodes[number]
        states[tensor] = states[tensor] + member.context.copied(copies[number])
        states[reader] = states[reader] + member.context.read(copies[number])
    for number in effects.off_layout.tolist():
        (node,) = prepared._off_layout.nodes[number]
        states[node] = states[node] + member.context.off_layout(operations[number])
    for block in member.context.blocks:
        states = states + nn.functional.gelu(heard(block, block.norm(states), graph))
    score = 0.0
    for number in effects.copies.tolist():
        tensor, reader = prepared._copies.nodes[number]
        around = torch.cat([copies[number], states[tensor], states[reader]])
        logarithm = member.copy_cost(copies[number]) + member.addend(around)
        cost = logarithm.clamp(max=LARGEST_LOGARITHM).exp().item()
        score += cost * float(prepared._copies.shares[number])
    for number in effects.off_layout.tolist():
        cost = member.off_layout_cost(operations[number]).item()
        score += cost * float(prepared._off_layout.shares[number])
    return score


def heard(block: nn.Module, normed: torch.Tensor, graph: object) -> torch.Tensor:
    """What each node hears."""
    rows = []
    for node in range(len(normed)):
        parts = [block.own(normed[node])]
        for side, weigh in ((graph.operands, block.operands), (graph.users, block.users)):
            if side[node]:
                parts.append(weigh(normed[side[node]].mean(dim=0)))
        rows.append(sum(parts))
    return torch.stack(rows)


@pytest.mark.parametrize("propagation", PROPAGATIONS)
@given(program=random_programs(), blocks=st.integers(1, 3))
@settings(deadline=None, max_examples=15)
def test_scores_are_those_of_every_node_computed(propagation, program, blocks):
    made, configurable, configured = program
    graph = made.graph(configurable, [[((), (), ())] * len(configurable), *configured])
    prepared = CopiesGraph(graph, propagation, "cpu", blocks)
    network, count = network_of(blocks), len(graph.cells)
    with torch.no_grad():
        scores = network(prepared.batch(np.arange(count))).tolist()
        for configuration in range(count):
            wanted = one_by_one(network, prepared, configuration)
            assert scores[configuration] == pytest.approx(wanted, rel=1e-4, abs=1e-6)


@given(program=random_programs())
@settings(deadline=None, max_examples=15)
def test_states_are_computed_once(program):
    made, configurable, configured = program
    graph = made.graph(configurable, configured * 3)
    prepared = CopiesGraph(graph, "return", "cpu", 2)
    count = len(graph.cells) // 3
    once, thrice = prepared.batch(np.arange(count)), prepared.batch(np.arange(3 * count))
    assert torch.equal(once.context.node, thrice.context.node)
    assert torch.equal(once.context.copies, thrice.context.copies)
    assert len(thrice.context.copy_places) == 3 * len(once.context.copy_places)


@given(program=random_programs())
@settings(deadline=None, max_examples=5)
def test_fresh_networks_hear_nothing(program):
    made, configurable, configured = program
    prepared = CopiesGraph(made.graph(configurable, configured), "return", "cpu", 2)
    batch, network = prepared.batch(np.arange(len(prepared.graph.cells))), network_of(2)
    (member,) = network.members
    nn.init.zeros_(member.addend[-1].weight)
    with torch.no_grad():
        standardized = network.inputs(batch)
        alone = Costs.forward(member, standardized)
        torch.testing.assert_close(member(standardized), alone)


def test_features_of_nodes_say_what_they_are():
    assert (
        len(set(NODE_FEATURES))
        == len(NODE_FEATURES)
        == widths(PlusSettings("layout-xla-default"))["node_width"]
    )
