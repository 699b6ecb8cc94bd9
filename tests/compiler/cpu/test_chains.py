"""Elementwise operations that read one another."""

from __future__ import annotations

from lib.compiler.cpu.chains import MOST, Chains, is_elementwise
from lib.compiler.graph import TensorGraph
from tests.compiler.builders import Builder

SHAPE = (8, 16)


def chains_of(made: Builder) -> Chains:
    return Chains(TensorGraph.of(made.graph([], [[]])))


def test_up_and_down_a_chain():
    made = Builder()
    x = made.add("parameter", SHAPE)
    first = made.add("tanh", SHAPE, x)
    middle = made.add("add", SHAPE, first, x)
    last = made.add("exponential", SHAPE, middle)
    dot = made.add("dot", (8, 4), last, made.add("parameter", (16, 4)))
    made.add("tanh", (8, 4), dot)
    chains = chains_of(made)
    assert [chains.above(node) for node in (first, middle, last)] == [(1, 1), (1, 2), (2, 3)]
    assert [chains.below(node) for node in (first, middle, last)] == [(2, 3), (1, 2), (1, 1)]
    assert chains.above(dot) == chains.below(dot) == chains.above(x) == (0, 0)
    assert [is_elementwise(chains.graph, node) for node in (x, first, middle, dot)] == [
        False,
        True,
        True,
        False,
    ]


def test_what_is_reached_twice_counts_once():
    made = Builder()
    top = made.add("tanh", SHAPE, made.add("parameter", SHAPE))
    sides = [made.add("negate", SHAPE, top) for _ in range(2)]
    end = made.add("add", SHAPE, *sides)
    chains = chains_of(made)
    assert chains.above(end) == chains.below(top) == (1, 4)


def test_small_operands_do_not_belong_to_it():
    made = Builder()
    bias = made.add("tanh", (1, 4), made.add("parameter", (1, 4)))
    end = made.add("add", SHAPE, made.add("tanh", SHAPE, made.add("parameter", SHAPE)), bias)
    assert chains_of(made).above(end) == (1, 2)


def test_long_chains_are_cut():
    made = Builder()
    node = made.add("parameter", SHAPE)
    for _ in range(3 * MOST):
        node = made.add("negate", SHAPE, node)
    assert chains_of(made).above(node) == (0, MOST)
