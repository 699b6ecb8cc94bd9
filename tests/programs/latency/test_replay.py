"""The replayer: made-up graphs with schedules that are known, and what holds for every graph."""

from __future__ import annotations

import dataclasses
from graphlib import TopologicalSorter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.programs.latency.replay import Node, Run, replay


def critical_path(nodes: list[Node]) -> float:
    """Seconds of the longest chain: what a replay takes with as many engines as one can wish."""
    ends = [0.0] * len(nodes)
    sorter = TopologicalSorter({k: node.after for k, node in enumerate(nodes)})
    for number in sorter.static_order():
        node = nodes[number]
        start = max((ends[one] for one in node.after), default=0.0)
        ends[number] = start + node.seconds + node.gap
    return max(ends, default=0.0)


def shown(nodes: list[Node]) -> list[tuple]:
    """Runs as (node, engine, start, end)."""
    return [dataclasses.astuple(run) for run in replay(nodes).runs]


def test_two_engines_run_what_does_not_wait():
    diamond = [
        Node(1, (), "a"),
        Node(5, (0,), "a"),
        Node(3, (0,), "b"),
        Node(1, (1, 2), "b"),
    ]
    assert shown(diamond) == [
        (0, "a", 0, 1),
        (2, "b", 1, 4),  # b is free before a
        (1, "a", 1, 6),
        (3, "b", 6, 7),
    ]
    assert replay(diamond).seconds == critical_path(diamond) == 7
    alone = [dataclasses.replace(node, engine="a") for node in diamond]
    assert replay(alone).seconds == 10


def test_the_node_that_was_ready_first_runs_first_and_ties_go_by_their_order():
    nodes = [
        Node(4, (), "a"),
        Node(1, (), "b"),
        Node(1, (0,), "c"),  # ready at 4
        Node(2, (1,), "c"),  # ready at 1
        Node(1, (1,), "c"),  # ready at 1, later in the graph
    ]
    order = [(run.node, run.start) for run in replay(nodes).runs if run.engine == "c"]
    assert order == [(3, 1), (4, 3), (2, 4)]


def test_an_engine_that_is_free_waits_for_what_is_in_its_queue():
    """As algorithm 2 is printed: it does not know of what will come to the queue meanwhile."""
    nodes = [
        Node(9, (), "a"),
        Node(1, (), "b"),
        Node(1, (0,), "c"),  # ready at 9
        Node(2, (1,), "b"),
        Node(1, (3,), "c"),  # ready at 3, when c has already been given the other
    ]
    runs = {run.node: (run.start, run.end) for run in replay(nodes).runs}
    assert runs[2] == (9, 10)
    assert runs[4] == (10, 11)


def test_what_is_no_graph_is_told():
    with pytest.raises(ValueError, match="node 1 waits for itself"):
        replay([Node(1), Node(1, (2,)), Node(1, (1,))])
    with pytest.raises(ValueError, match="node 0 waits for node 3, which there is not"):
        replay([Node(1, (3,))])


SECONDS = st.integers(0, 8).map(float)  # sums of them are exact, and ties are frequent


@st.composite
def graphs(draw) -> list[Node]:
    """Graphs of up to a dozen nodes on up to three engines, in an order that is none."""
    count = draw(st.integers(1, 12))
    engines = ("a", "b", "c")[: draw(st.integers(1, 3))]
    nodes = []
    for number in range(count):
        after = draw(st.sets(st.integers(0, number - 1), max_size=3)) if number else set()
        engine = draw(st.sampled_from(engines))
        nodes.append(Node(draw(SECONDS), tuple(after), engine, draw(SECONDS)))
    place = draw(st.permutations(range(count)))
    moved: list[Node] = [Node(0)] * count
    for old, new in enumerate(place):
        after = tuple(place[one] for one in nodes[old].after)
        moved[new] = dataclasses.replace(nodes[old], after=after)
    return moved


@settings(max_examples=300, deadline=None)
@given(graphs())
def test_what_holds_for_every_graph(nodes):
    found = replay(nodes)
    whole = sum(node.seconds + node.gap for node in nodes)
    assert critical_path(nodes) <= found.seconds <= whole
    if len({node.engine for node in nodes}) == 1:
        assert found.seconds == whole  # an engine alone never waits
    assert sorted((run.node, run.engine) for run in found.runs) == [
        (number, node.engine) for number, node in enumerate(nodes)
    ]
    by_node = {run.node: run for run in found.runs}
    by_engine: dict[str, list[Run]] = {}
    for run in found.runs:
        by_engine.setdefault(run.engine, []).append(run)
        node = nodes[run.node]
        assert run.end - run.start == node.seconds
        for one in node.after:  # what it waits for has ended, and its gap
            assert run.start >= by_node[one].end + nodes[one].gap
    for own in by_engine.values():
        for before, after in pairwise(own):
            assert after.start >= before.end + nodes[before.node].gap
