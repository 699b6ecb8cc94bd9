"""Prices of a TPU's layouts: what is solved for, and what stands where nothing was measured."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lib.cache.graph import CachedGraph
from lib.models.common.build import network_for
from lib.models.prices.inputs import INPUT, ProductsGraph
from lib.models.prices.network import Prices
from lib.models.prices.settings import PricesSettings
from lib.models.prices.training import PricesFold
from lib.ranking.baseline import padded_work
from lib.ranking.metrics import kendall_tau
from lib.ranking.rounds import noise_of, repeated_ceiling
from lib.tpugraphs.npz import read_layout
from lib.training.fold import new_network
from lib.training.split import LabelledGraph
from tests.compiler.builders import Builder
from tests.compiler.test_operands import UNET
from tests.graphs import compress
from tests.tpu import PROGRAM

SETTINGS = PricesSettings("layout-xla-default")
CHANNELS = (16, 48, 160, 320)
ORDERS = ((), (3, 0), (0, 3))


def program(
    seed: int = 0, configurations: int = 80, base: int = 1 << 20, size: int = 16
) -> CachedGraph:
    """Four convolutions in a row under drawn layouts. A runtime is ``base``, a tenth more for each
    kernel that is set to (0, 3), and nothing for all else."""
    made = Builder()
    before, nodes = made.add("parameter", (8, size, size, 8)), []
    for inputs, outputs in zip((8, *CHANNELS), CHANNELS, strict=False):
        kernel = made.add("parameter", (3, 3, inputs, outputs))
        before = made.convolution((8, size, size, outputs), before, kernel, window_size_product=9)
        nodes.append(before)
    drawn = np.random.default_rng(seed).integers(0, 3, (configurations, len(nodes), 3))
    drawn[0] = 0
    graph = made.graph(nodes, [[[ORDERS[d] for d in node] for node in one] for one in drawn])
    runtime = base + base // 10 * (drawn[:, :, 2] == 2).sum(axis=1)
    return replace(graph, name=f"program{seed}", runtime=runtime.astype(np.int64))


def part(graph: CachedGraph, rows: np.ndarray) -> CachedGraph:
    kept = {"cells": graph.cells[rows], "runtime": graph.runtime[rows]}
    return replace(graph, **kept, original=np.arange(len(kept["runtime"]), dtype=np.int32))


def learned(*graphs: CachedGraph) -> Prices:
    labelled = [LabelledGraph(graph.name, ProductsGraph(graph), graph.runtime) for graph in graphs]
    return new_network(PricesFold(labelled, labelled, SETTINGS), 0, 0).eval()


def scores(network: Prices, graph: CachedGraph) -> np.ndarray:
    return INPUT.scores(network, ProductsGraph(graph), 32, np.arange(len(graph.runtime)))


def test_without_measurements_arithmetic_ranks():
    graph = program()
    found, wanted = scores(network_for(SETTINGS).eval(), graph), padded_work(graph)
    np.testing.assert_allclose(found - found[0], wanted / 2, atol=1e-6)
    assert len(np.unique(wanted)) > 10


def test_configurations_of_a_measured_program_are_ranked_as_they_ran():
    graph = program(configurations=160)
    network = learned(part(graph, np.arange(120)))
    held = part(graph, np.arange(120, 160))
    assert kendall_tau(scores(network, held), held.runtime) > 0.8
    assert kendall_tau(padded_work(held), held.runtime) < 0.5


def test_a_program_unlike_all_that_was_measured_is_ranked_by_arithmetic():
    network = learned(program())
    made = Builder()
    rows, columns = made.add("parameter", (4096, 512)), made.add("parameter", (512, 40))
    dot = made.add("dot", (4096, 40), rows, columns)
    other = made.graph([dot], [[[order, (), ()]] for order in ((), (0, 1), (1, 0))])
    found = scores(network, other)
    assert found[0] == pytest.approx(found[2], abs=1e-6) and found[1] < found[0]


def test_other_programs_are_ranked_by_what_leaving_one_out_shows():
    """One or two programs show nothing, nor do programs that contradict each other."""
    sizes, other = (10, 13, 20, 26), program(seed=9, size=16)
    alike = [program(seed=number, size=size) for number, size in enumerate(sizes)]
    contrary = [
        replace(graph, runtime=(2 << 20) - graph.runtime) if number % 2 else graph
        for number, graph in enumerate(alike)
    ]
    arithmetic = scores(network_for(SETTINGS).eval(), other)
    for programs in (alike[:1], alike[:2], contrary):
        network = learned(*programs)
        assert network.trust == 0
        np.testing.assert_allclose(scores(network, other), arithmetic, atol=1e-6)
    network = learned(*alike)
    assert network.trust > 0
    assert kendall_tau(scores(network, other), other.runtime) > kendall_tau(
        arithmetic, other.runtime
    )


def test_repeats_say_how_far_runtimes_agree():
    first = np.arange(1000, 1100)
    repeats = np.stack([first * 1000, first * 1000 + np.where(first % 2, 20, -20)], axis=1)
    assert noise_of(repeats) == pytest.approx(20 / 1.05e6 / np.sqrt(2), rel=0.01)
    assert noise_of(repeats[:0]) == 0.0
    assert repeated_ceiling(repeats) == 1.0 and repeated_ceiling(repeats[:7]) is None


def test_the_first_two_of_repeated_measurements_are_kept():
    graph = compress(read_layout(PROGRAM), "train", 1, path=PROGRAM)
    assert len(graph.original) - len(graph.cells) >= len(graph.repeats) > 0
    assert noise_of(graph.repeats) < 1e-4


@pytest.mark.skipif(not UNET.exists(), reason="needs ../shared")
def test_a_real_program_from_some_of_its_configurations():
    graph = compress(read_layout(UNET), "train", 1, path=UNET)
    order = np.random.default_rng(0).permutation(len(graph.cells))
    for count, least in ((len(order) // 2, 0.82), (64, 0.77)):
        held = part(graph, order[count:])
        tau = kendall_tau(scores(learned(part(graph, order[:count])), held), held.runtime)
        assert tau > least
