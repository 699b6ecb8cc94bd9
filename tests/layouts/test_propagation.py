"""Layouts spread through small programs: by hand, and by what must not matter."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.layouts.found import ASKED, CONVOLUTION_GIVES, CONVOLUTION_WANTS, READ, TRANSPOSED
from lib.layouts.program import Program
from lib.layouts.propagation import RUNS, Propagation
from lib.moves import MovingGraph

from .builders import OTHER, PLAIN, SHAPE, THIRD, Builder, network, random_programs, told


def test_nothing_asked_and_nothing_changed_moves_nothing():
    made, nodes = network()
    sites = [nodes["first"], nodes["second"]]
    both = told(made, sites, [[((), (), ())] * 2, [(PLAIN,) * 3] * 2])
    assert both == [{"moves": set(), "states": set()}] * 2


def test_a_layout_between_two_convolutions():
    made, nodes = network()
    sites = [nodes["first"], nodes["second"]]
    asked = [((), (), ()), ((), OTHER, ())]
    _, found = told(made, sites, [[((), (), ())] * 2, asked])
    assert found["moves"] == {
        (nodes["first"], PLAIN, OTHER, READ),  # tanh reads what the first gives, and writes ...
        (nodes["between"], OTHER, PLAIN, CONVOLUTION_WANTS),  # ... what the second is asked for
    }
    assert found["states"] == {(nodes["between"], OTHER, OTHER)}


def test_an_output_and_an_input_that_agree_or_do_not():
    made, nodes = network()
    sites = [nodes["first"], nodes["second"]]
    agree = [(OTHER, (), ()), ((), OTHER, ())]
    differ = [(THIRD, (), ()), ((), OTHER, ())]
    one, other = told(made, sites, [agree, differ])
    assert one["moves"] == {
        (nodes["first"], PLAIN, OTHER, CONVOLUTION_GIVES),
        (nodes["between"], OTHER, PLAIN, CONVOLUTION_WANTS),
    }
    assert other["moves"] == {
        (nodes["first"], PLAIN, THIRD, CONVOLUTION_GIVES),
        (nodes["first"], THIRD, OTHER, READ),
        (nodes["between"], OTHER, PLAIN, CONVOLUTION_WANTS),
    }


def test_an_output_alone_is_turned_back_by_who_reads_it():
    made, nodes = network()
    sites = [nodes["first"], nodes["second"]]
    _, found = told(made, sites, [[((), (), ())] * 2, [(OTHER, (), ()), ((), (), ())]])
    assert found["moves"] == {
        (nodes["first"], PLAIN, OTHER, CONVOLUTION_GIVES),
        (nodes["first"], OTHER, PLAIN, READ),  # tanh writes what the convolution wants
    }
    assert not found["states"]


def test_a_parameter_is_copied_there_and_back():
    made, nodes = network()
    _, found = told(made, [nodes["first"]], [[((), (), ())], [((), THIRD, ())]])
    assert found["moves"] == {
        (nodes["image"], PLAIN, THIRD, ASKED),
        (nodes["image"], THIRD, PLAIN, CONVOLUTION_WANTS),
    }


def test_a_transpose_is_free_in_the_right_layout():
    made = Builder()
    x = made.add("parameter", (32, 64))
    turned = made.transpose((64, 32), x, (1, 0))
    node = made.add("dot", (64, 16), turned, made.add("parameter", (32, 16)))
    found = told(made, [node], [[((), (), ())], [((), (0, 1), ())], [((), (1, 0), ())]])
    free = {move for move in found[1]["moves"] if move[3] == TRANSPOSED}
    assert not free, "column-major is what the transpose gives"
    assert (turned, (0, 1), (1, 0), TRANSPOSED) in found[2]["moves"]


def test_a_reshape_moves_data_or_does_not():
    made = Builder()
    x = made.add("parameter", (8, 16, 4))
    flat = made.add("reshape", (8, 64), x)
    made.add("tanh", (8, 64), flat)
    asked = [[((), (), ())], [((), (2, 1, 0), ())], [((), (1, 2, 0), ())], [((), (2, 0, 1), ())]]
    moved = [bool(one["states"]) for one in told(made, [flat], asked)]
    assert moved == [False, False, True, True]


def test_a_layout_of_another_rank_is_left_out():
    made, nodes = network()
    plain, odd = told(made, [nodes["first"]], [[((), (), ())], [((), (1, 0), ())]])
    assert plain == odd


def test_dimensions_of_one_element_do_not_count():
    made = Builder()
    x = made.add("parameter", (1, 64, 1, 16))
    node = made.convolution((1, 64, 1, 16), x, made.add("parameter", (1, 1, 16, 16)))
    found = told(made, [node], [[((), (), ())], [((), (3, 1, 2, 0), ())]])
    assert found[1] == {"moves": set(), "states": set()}


def test_a_transpose_whose_operand_was_pruned_or_that_makes_no_sense():
    for odd in ({}, {"operand": True, "permutation": (0, 0)}):
        made = Builder()
        x = made.add("parameter", (32, 64))
        named = {f"dimensions_{d}": v for d, v in enumerate(odd.get("permutation", (1, 0)))}
        turned = made.add("transpose", (64, 32), *([x] if odd else []), **named)
        node = made.add("dot", (64, 16), turned, made.add("parameter", (32, 16)))
        _, found = told(made, [node], [[((), (), ())], [((), (0, 1), ())]])
        assert {move[0] for move in found["moves"]} <= {x, turned}
        assert found["moves"]


@pytest.mark.parametrize("reach", RUNS)
@given(program=random_programs())
@settings(deadline=None, max_examples=40)
def test_a_configuration_does_not_depend_on_its_company(reach, program):
    made, sites, asked = program
    nothing = [((), (), ())] * len(sites)
    together = told(made, sites, [nothing, *asked], reach)
    assert together[0] == {"moves": set(), "states": set()}
    for own, configuration in zip(together[1:], asked, strict=True):
        assert told(made, sites, [configuration], reach) == [own]


@pytest.mark.parametrize("reach", RUNS)
@pytest.mark.parametrize("room", [0, 10, 1 << 20])
@given(program=random_programs(), data=st.data())
@settings(deadline=None, max_examples=20)
def test_batches_of_one_graph_share_what_they_learned(reach, room, program, data):
    made, sites, asked = program
    graph = made.graph(sites, [[((), (), ())] * len(sites), *asked])
    count = len(graph.cells)
    once = MovingGraph(graph, reach).batch(np.arange(count))
    often = MovingGraph(graph, reach)
    often._room = room
    for _ in range(3):
        order = data.draw(st.permutations(range(count)))
        often.batch(np.array(order[: data.draw(st.integers(1, count))]))
    again = often.batch(np.arange(count))
    for name in ("move", "state"):  # to the bit, and in the same order: training resumes alike
        for part in (f"{name}s", f"{name}_bytes", f"{name}_places"):
            assert torch.equal(getattr(once, part), getattr(again, part)), part


def test_numbers_of_layouts():
    made, nodes = network()
    program = Program.of(made.graph([nodes["first"]], [[((), (), ())]]))
    of = Propagation(program, "spread")
    digits = np.array([[1, 0, -1, -1, -1, -1], [-1] * 6, [0, 0, -1, -1, -1, -1]])
    numbers = of.numbers_of(np.stack([digits, digits[::-1]]))
    assert of.orders.items[numbers[0, 0]] == (1, 0)
    assert numbers[0, 1] == numbers[0, 2] == -1, "not set, and no permutation"
    np.testing.assert_array_equal(numbers[1], numbers[0][::-1])


@pytest.mark.parametrize("edges", [[(2, 3), (3, 2)], [(2, 2)]])
def test_a_cycle_of_a_broken_file_is_left_out(edges):
    made, nodes = network()
    made.edges += edges
    for reach in RUNS:
        told(made, [nodes["first"]], [[((), (), ())], [(OTHER, OTHER, ())]], reach)


@pytest.mark.parametrize("reach", RUNS)
@pytest.mark.parametrize("opcode", ["tanh", "add", "reduce", "custom-call", "copy"])
def test_a_configurable_node_of_any_operation(reach, opcode):
    """Asked for nothing it moves nothing; asked for a layout, its tensors move for it."""
    made = Builder()
    image = made.add("parameter", SHAPE)
    before = made.add("tanh", SHAPE, image)
    site = made.add(opcode, SHAPE, before)
    made.add("tanh", SHAPE, site, is_root=1)
    nothing, asked = told(made, [site], [[((), (), ())], [(OTHER, OTHER, ())]], reach)
    assert nothing == {"moves": set(), "states": set()}
    assert {move[0] for move in asked["moves"]} & {before, site, image}


@pytest.mark.parametrize("reach", RUNS)
def test_a_transpose_with_a_second_operand_is_none(reach):
    """No compiler writes one; its permutation would be looked up for a tensor of another rank."""
    made = Builder()
    one, other = made.add("parameter", (8, 4)), made.add("parameter", (2, 8, 4))
    turned = made.transpose((4, 8), one, (1, 0))
    made.edges.append((turned, other))
    site = made.add("reshape", (2, 16), turned)
    moving = MovingGraph(made.graph([site], [[((), (1, 0), ())], [((), (0, 1), ())]]), reach)
    assert np.isfinite(moving.batch(np.arange(2)).moves.numpy()).all()
