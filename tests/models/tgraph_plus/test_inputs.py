"""What a network of learned costs reads: the same scores however configurations are batched."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lib.cache.prune import pruned
from lib.compiler.cpu.resolved import WIDTHS
from lib.models.tgraph_plus.inputs import CopiesGraph
from lib.models.tgraph_plus.network import LARGEST_LOGARITHM, TGraphPlus
from tests.compiler.builders import random_programs, resolved

CHANNELS = 16
OFF_LAYOUT = 1  # the kind of effects that may be gains


def network_of(members: int = 2) -> TGraphPlus:
    """One without dropout, that hears what surrounds an effect."""
    torch.manual_seed(0)
    sizes = {"channels": 8, "context_channels": CHANNELS, "context_dropout": 0.0}
    made = TGraphPlus(WIDTHS, members=members, **sizes).eval()
    nn.init.normal_(made.hears.weight)
    return made


@given(program=random_programs(), hops=st.sampled_from([1, "all"]))
@settings(deadline=None, max_examples=15)
def test_scores_are_as_the_docstrings_have_them(program, hops):
    made, configurable, configured = program
    graph = pruned(resolved(made.graph(configurable, configured)), hops)
    prepared, network = CopiesGraph(graph), network_of(members=1)
    with torch.no_grad():
        scores = network(prepared.batch(np.arange(len(graph.cells)))).tolist()
        for configuration, score in enumerate(scores):
            wanted = one_by_one(network, prepared, configuration)
            assert score == pytest.approx(wanted, rel=1e-3, abs=1e-5)


def one_by_one(network: TGraphPlus, prepared: CopiesGraph, configuration: int) -> float:
    """The score of a configuration, one effect after the other."""
    graph = prepared.graph
    around = network.states(prepared.program)[:, 0]
    kinds = graph.effects[:, 0]
    starts, columns = np.cumsum([0, *np.array(WIDTHS)[kinds]]), np.cumsum([0, *WIDTHS])
    happening = graph.happens[graph.happens[:, 0] == configuration, 1].tolist()
    first = network.reads.weight[0]
    read, ends = {}, {}
    for number in happening:
        kind = kinds[number]
        vector = torch.zeros(first.shape[1])
        raw = torch.from_numpy(graph.effect_feat[starts[number] : starts[number + 1]].copy())
        vector[columns[kind] : columns[kind + 1]] = raw.float()
        vector[columns[-1] + kind] = 1
        read[number] = (first @ vector).split([*network.parts[:1], CHANNELS, CHANNELS])
        ends[number] = prepared._nodes[number].tolist()
    told = around.clone()
    for number in happening:
        for end, tells in zip(ends[number], read[number][1:], strict=True):
            told[end] = told[end] + tells
    heard = nn.functional.gelu(nn.functional.layer_norm(told, told.shape[1:]))
    score = 0.0
    for number in happening:
        layer = read[number][0]
        for end, weight in zip(ends[number], network.hears.weight[0].chunk(2), strict=True):
            layer = layer + weight @ heard[end]
        cost = network.perceptron(layer[None, None])
        if kinds[number] != OFF_LAYOUT:
            cost = cost.clamp(max=LARGEST_LOGARITHM).exp()
        score += cost.item() * float(graph.effect_sizes[number])
    return score
