"""Which operations run in one loop, and what it reads."""

from __future__ import annotations

from lib.compiler.cpu.tables import ProgramTables
from lib.compiler.graph import TensorGraph
from tests.compiler.builders import Builder


def loops_of(made, configurable):
    graph = made.graph(configurable, [[((), (), ())] * len(configurable)])
    return ProgramTables(TensorGraph.of(graph)).loops


def test_a_long_chain_is_not_gone_down_at_once():
    """Every operation of it is read by a configurable node too."""
    made, configurable = Builder(), []
    last = made.add("parameter", (8, 4))
    for _ in range(2000):
        last = made.add("tanh", (8, 4), last)
        configurable.append(made.add("reshape", (4, 8), last))
    made.add("tanh", (8, 4), last)
    assert len(loops_of(made, configurable).affected) == 4000
