"""Which operations run in one loop, and what it reads."""

from __future__ import annotations

from hypothesis import given

from lib.compiler.cpu.loops import Source
from lib.compiler.cpu.tables import ProgramTables
from lib.compiler.graph import TensorGraph
from tests.compiler.builders import SHAPE, Builder, network, random_programs


def loops_of(made, configurable):
    graph = made.graph(configurable, [[((), (), ())] * len(configurable)])
    return ProgramTables.of(TensorGraph.of(graph)).loops


def test_elementwise_operations_and_transposes_run_in_loops_and_nothing_else():
    made, nodes = network()
    turned = made.transpose((8, 8, 16, 4), nodes["between"], (1, 2, 3, 0))
    summed = made.add("reduce-window", SHAPE, nodes["between"])
    small = made.add("tanh", (16,), made.add("parameter", (16,)))
    loops = loops_of(made, [nodes["first"]])
    assert loops.fuses(nodes["between"]) and loops.fuses(turned)
    for node in (nodes["image"], nodes["first"], nodes["second"], summed, small):
        assert not loops.fuses(node), node
    assert not loops_of(made, [nodes["first"], turned]).fuses(turned), (
        "a configurable node is on its own"
    )


def test_a_loop_reads_what_lies_in_memory():
    made = Builder()
    x, y = made.add("parameter", (8, 4)), made.add("parameter", (4, 8))
    scale = made.add("broadcast", (8, 4), made.add("parameter", (4,)))
    tanh = made.add("tanh", (8, 4), x)
    scaled = made.add("multiply", (8, 4), tanh, scale)
    turned = made.transpose((4, 8), scaled, (1, 0))
    total = made.add("add", (4, 8), turned, y)
    twice = made.add("add", (4, 8), total, turned)
    back = made.transpose((8, 4), twice, (1, 0))
    loops = loops_of(made, [])
    assert loops.sources(scaled) == [Source(x)]
    assert loops.sources(total) == [Source(x, (turned,)), Source(y)]
    assert loops.sources(twice) == loops.sources(total), "each once"
    assert loops.sources(back) == [Source(x, (turned, back)), Source(y, (back,))]


@given(random_programs())
def test_sources_are_of_the_same_size_and_no_loops(program):
    made, configurable, _ = program
    loops = loops_of(made, configurable)
    for node in range(len(made.features)):
        if loops.fuses(node):
            assert loops.sources(node)
            for source in loops.sources(node):
                assert loops.view(source.path) is not None
                written = [c for c in source.conditions if c.configured]
                assert bool(written) == loops.fuses(source.tensor), "in memory if it is written"
                assert len(written) <= 1


def test_a_long_chain_is_not_gone_down_at_once():
    """Every operation of it is read by a configurable node too."""
    made, configurable = Builder(), []
    last = made.add("parameter", (8, 4))
    for _ in range(2000):
        last = made.add("tanh", (8, 4), last)
        configurable.append(made.add("reshape", (4, 8), last))
    made.add("tanh", (8, 4), last)
    assert len(loops_of(made, configurable).affected) == 4000
