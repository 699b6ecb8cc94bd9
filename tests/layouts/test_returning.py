"""Layouts that return to the program's own at once: small programs, by hand."""

from __future__ import annotations

from lib.layouts.found import (
    ASKED,
    CONVOLUTION_GIVES,
    CONVOLUTION_WANTS,
    DOT_WANTS,
    READ,
    RESHAPE_WANTS,
    RESHAPED,
    TRANSPOSED,
)
from lib.moves import MovingGraph

from .builders import OTHER, PLAIN, SHAPE, THIRD, Builder, network, told

UNSET = ((), (), ())


def found_in(made, sites, configuration):
    """Moves and states of one configuration, beside one that asks for nothing."""
    return told(made, sites, [[UNSET] * len(sites), configuration], "return")[1]


def test_an_input_is_brought_there_and_back_and_nothing_else_moves():
    made, nodes = network()
    found = found_in(made, [nodes["first"], nodes["second"]], [UNSET, ((), OTHER, ())])
    assert found["moves"] == {
        (nodes["first"], PLAIN, OTHER, ASKED),  # by the loop of the tanh, which writes it so
        (nodes["between"], OTHER, PLAIN, CONVOLUTION_WANTS),
    }
    assert not found["states"]


def test_a_loop_goes_from_one_layout_to_the_other():
    made, nodes = network()
    sites = [nodes["first"], nodes["second"]]
    agree = found_in(made, sites, [(OTHER, (), ()), ((), OTHER, ())])
    ends = {
        (nodes["first"], PLAIN, OTHER, CONVOLUTION_GIVES),
        (nodes["between"], OTHER, PLAIN, CONVOLUTION_WANTS),
    }
    assert agree["moves"] == ends, "the loop reads and writes in a row"
    differ = found_in(made, sites, [(THIRD, (), ()), ((), OTHER, ())])
    assert differ["moves"] == {
        (nodes["first"], PLAIN, THIRD, CONVOLUTION_GIVES),
        (nodes["first"], THIRD, OTHER, ASKED),
        (nodes["between"], OTHER, PLAIN, CONVOLUTION_WANTS),
    }


def test_a_loop_runs_once_for_each_order_that_it_is_written_in():
    made, nodes = network()
    weights = made.add("parameter", (3, 3, 16, 16))
    third = made.convolution(SHAPE, nodes["between"], weights)
    sites = [nodes["first"], nodes["second"], third]
    asked = [(OTHER, (), ()), ((), THIRD, ()), ((), THIRD, ())]
    graph = made.graph(sites, [[UNSET] * 3, asked, [asked[0], UNSET, asked[2]]])
    moving = MovingGraph(graph, "return")
    of = moving.propagation
    found = of.run(moving.layouts[graph.cells]).moves.tolist()
    loops = [(c, of.moves.items[n]) for c, n in found if of.moves.items[n][4] == nodes["between"]]
    told = [(c, of.orders.items[one], of.orders.items[two]) for c, (_, one, two, *_) in loops]
    assert sorted(told) == sorted([(1, OTHER, THIRD), (2, OTHER, PLAIN), (2, OTHER, THIRD)])


def test_a_loop_reads_all_of_its_operands():
    made, nodes = network()
    weights = made.add("parameter", (3, 3, 16, 16))
    scale = made.add("broadcast", SHAPE, made.add("parameter", (16,)))
    scaled = made.add("multiply", SHAPE, nodes["between"], scale)
    total = made.add("add", SHAPE, scaled, nodes["image"])
    again = made.add("add", SHAPE, total, nodes["image"])
    last = made.convolution(SHAPE, again, weights)
    found = found_in(made, [nodes["first"], last], [UNSET, ((), OTHER, ())])
    assert found["moves"] == {
        (nodes["first"], PLAIN, OTHER, ASKED),
        (nodes["image"], PLAIN, OTHER, ASKED),
        (again, OTHER, PLAIN, CONVOLUTION_WANTS),
    }, "what is made up on the way costs no reading, and nothing is read twice"


def test_an_output_returns_for_each_of_its_readers():
    made, nodes = network()
    again = made.add("exponential", SHAPE, nodes["first"])
    sites = [nodes["first"], nodes["second"]]
    found = found_in(made, sites, [(OTHER, (), ()), UNSET])
    assert found["moves"] == {
        (nodes["first"], PLAIN, OTHER, CONVOLUTION_GIVES),
        (nodes["first"], OTHER, PLAIN, READ),
    }
    graph = made.graph(sites, [[UNSET] * 2, [(OTHER, (), ()), UNSET]])
    readers = {item[4] for item in moves_of(graph) if item[3] == READ}
    assert readers == {nodes["between"], again}


def moves_of(graph):
    """Moves with the node that they happen for."""
    moving = MovingGraph(graph, "return")
    moving.propagation.run(moving.layouts[graph.cells])
    return moving.propagation.moves.items


def test_an_output_that_a_configured_operand_reads():
    made = Builder()
    image, weights = made.add("parameter", SHAPE), made.add("parameter", (3, 3, 16, 16))
    first = made.convolution(SHAPE, image, weights)
    sites = [first, made.convolution(SHAPE, first, weights)]
    agree = found_in(made, sites, [(OTHER, (), ()), ((), OTHER, ())])
    assert agree["moves"] == {
        (first, PLAIN, OTHER, CONVOLUTION_GIVES),
        (first, OTHER, PLAIN, CONVOLUTION_WANTS),
    }
    differ = found_in(made, sites, [(OTHER, (), ()), ((), THIRD, ())])
    assert differ["moves"] == {
        (first, PLAIN, OTHER, CONVOLUTION_GIVES),
        (first, OTHER, THIRD, ASKED),
        (first, THIRD, PLAIN, CONVOLUTION_WANTS),
    }


def test_a_transpose_that_only_a_configured_operand_reads_is_free():
    made = Builder()
    turned = made.transpose((64, 32), made.add("parameter", (32, 64)), (1, 0))
    node = made.add("dot", (64, 16), turned, made.add("parameter", (32, 16)))
    own = (turned, (0, 1), (1, 0), TRANSPOSED)
    without, asked = told(made, [node], [[UNSET], [((), (1, 0), ())]], "return")
    assert without["moves"] == {own}, "as in the program as it stands"
    assert asked["moves"] == {(turned, (0, 1), (1, 0), ASKED)}, "instead of the transpose's"
    made.add("tanh", (64, 32), turned)
    _, asked = told(made, [node], [[UNSET], [((), (0, 1), ())]], "return")
    assert asked["moves"] == {(turned, (0, 1), (1, 0), DOT_WANTS)}


def test_operations_that_write_in_any_order_write_in_the_one_that_is_asked():
    made = Builder()
    wide = made.add("broadcast", (64, 32), made.add("parameter", (32,)))
    node = made.add("dot", (64, 16), wide, made.add("parameter", (32, 16)))
    found = found_in(made, [node], [((), (0, 1), ())])
    assert found["moves"] == {(wide, (0, 1), (1, 0), DOT_WANTS)}
    assert found["states"] == {(wide, (0, 1), (0, 1))}
    made.add("tanh", (64, 32), wide)
    found = found_in(made, [node], [((), (0, 1), ())])
    assert not found["states"] and (wide, (1, 0), (0, 1), ASKED) in found["moves"]


def test_a_reshape_is_read_and_written_as_the_program_has_it():
    made = Builder()
    x = made.add("parameter", (8, 16, 4))
    flat = made.add("reshape", (128, 4), made.add("tanh", (8, 16, 4), x))
    made.add("tanh", (128, 4), flat)
    found = found_in(made, [flat], [((0, 1), (0, 1, 2), ())])
    tanh = flat - 1
    assert found["moves"] == {
        (x, (2, 1, 0), (0, 1, 2), ASKED),
        (tanh, (0, 1, 2), (2, 1, 0), RESHAPE_WANTS),
        (flat, (1, 0), (0, 1), RESHAPED),
        (flat, (0, 1), (1, 0), READ),
    }
