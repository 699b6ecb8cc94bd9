"""Layouts that return to the program's own at once: small programs, by hand."""

from __future__ import annotations

from lib.compiler.cpu.effects import Reason
from lib.compiler.cpu.resolved import ResolvedProgram
from lib.compiler.cpu.returning import Returning
from lib.compiler.graph import TensorGraph
from tests.compiler.builders import OTHER, PLAIN, SHAPE, THIRD, Builder, network, told_effects

UNSET = ((), (), ())


def effect_of(made, configurable, configuration):
    """What one configuration makes a compiler do, beside one that sets no layout."""
    return told_effects(made, configurable, [[UNSET] * len(configurable), configuration])[1]


def test_an_input_is_brought_there_and_back_and_nothing_else_moves():
    made, nodes = network()
    result = effect_of(made, [nodes["first"], nodes["second"]], [UNSET, ((), OTHER, ())])
    assert result["copies"] == {
        (
            nodes["first"],
            PLAIN,
            OTHER,
            Reason.CONFIGURED,
        ),  # by the loop of the tanh, which writes it so
        (nodes["between"], OTHER, PLAIN, Reason.CONVOLUTION_OPERAND),
    }
    assert not result["off_layout"]


def test_a_loop_goes_from_one_layout_to_the_other():
    made, nodes = network()
    configurable = [nodes["first"], nodes["second"]]
    agree = effect_of(made, configurable, [(OTHER, (), ()), ((), OTHER, ())])
    ends = {
        (nodes["first"], PLAIN, OTHER, Reason.CONVOLUTION_OUTPUT),
        (nodes["between"], OTHER, PLAIN, Reason.CONVOLUTION_OPERAND),
    }
    assert agree["copies"] == ends, "the loop reads and writes in a row"
    differ = effect_of(made, configurable, [(THIRD, (), ()), ((), OTHER, ())])
    assert differ["copies"] == {
        (nodes["first"], PLAIN, THIRD, Reason.CONVOLUTION_OUTPUT),
        (nodes["first"], THIRD, OTHER, Reason.CONFIGURED),
        (nodes["between"], OTHER, PLAIN, Reason.CONVOLUTION_OPERAND),
    }


def test_a_loop_runs_once_for_each_order_that_it_is_written_in():
    made, nodes = network()
    weights = made.add("parameter", (3, 3, 16, 16))
    third = made.convolution(SHAPE, nodes["between"], weights)
    configurable = [nodes["first"], nodes["second"], third]
    configured = [(OTHER, (), ()), ((), THIRD, ()), ((), THIRD, ())]
    graph = made.graph(
        configurable, [[UNSET] * 3, configured, [configured[0], UNSET, configured[2]]]
    )
    loops = [
        (configuration, before, after)
        for configuration, before, after, _, reader in copies_of(graph)
        if reader == nodes["between"]
    ]
    assert sorted(loops) == sorted([(1, OTHER, THIRD), (2, OTHER, PLAIN), (2, OTHER, THIRD)])


def test_a_loop_reads_all_of_its_operands():
    made, nodes = network()
    weights = made.add("parameter", (3, 3, 16, 16))
    scale = made.add("broadcast", SHAPE, made.add("parameter", (16,)))
    scaled = made.add("multiply", SHAPE, nodes["between"], scale)
    total = made.add("add", SHAPE, scaled, nodes["image"])
    again = made.add("add", SHAPE, total, nodes["image"])
    last = made.convolution(SHAPE, again, weights)
    result = effect_of(made, [nodes["first"], last], [UNSET, ((), OTHER, ())])
    assert result["copies"] == {
        (nodes["first"], PLAIN, OTHER, Reason.CONFIGURED),
        (nodes["image"], PLAIN, OTHER, Reason.CONFIGURED),
        (again, OTHER, PLAIN, Reason.CONVOLUTION_OPERAND),
    }, "what is made up on the way costs no reading, and nothing is read twice"


def test_an_output_returns_for_each_of_its_readers():
    made, nodes = network()
    again = made.add("exponential", SHAPE, nodes["first"])
    configurable = [nodes["first"], nodes["second"]]
    result = effect_of(made, configurable, [(OTHER, (), ()), UNSET])
    assert result["copies"] == {
        (nodes["first"], PLAIN, OTHER, Reason.CONVOLUTION_OUTPUT),
        (nodes["first"], OTHER, PLAIN, Reason.READER),
    }
    graph = made.graph(configurable, [[UNSET] * 2, [(OTHER, (), ()), UNSET]])
    readers = {reader for *_, reason, reader in copies_of(graph) if reason == Reason.READER}
    assert readers == {nodes["between"], again}


def copies_of(graph):
    """(configuration, order before, order after, reason, reader) of each copy."""
    resolved = ResolvedProgram(TensorGraph.of(graph))
    tables = resolved.tables
    copies = Returning(tables, resolved.layouts(graph)[graph.cells]).effects().copies.tolist()
    every = [(configuration, tables.copies.items[number]) for configuration, number in copies]
    orders = tables.orders.items
    return [(c, orders[one.before], orders[one.after], one.reason, one.reader) for c, one in every]


def test_an_output_that_a_configured_operand_reads():
    made = Builder()
    image, weights = made.add("parameter", SHAPE), made.add("parameter", (3, 3, 16, 16))
    first = made.convolution(SHAPE, image, weights)
    configurable = [first, made.convolution(SHAPE, first, weights)]
    agree = effect_of(made, configurable, [(OTHER, (), ()), ((), OTHER, ())])
    assert agree["copies"] == {
        (first, PLAIN, OTHER, Reason.CONVOLUTION_OUTPUT),
        (first, OTHER, PLAIN, Reason.CONVOLUTION_OPERAND),
    }
    differ = effect_of(made, configurable, [(OTHER, (), ()), ((), THIRD, ())])
    assert differ["copies"] == {
        (first, PLAIN, OTHER, Reason.CONVOLUTION_OUTPUT),
        (first, OTHER, THIRD, Reason.CONFIGURED),
        (first, THIRD, PLAIN, Reason.CONVOLUTION_OPERAND),
    }


def test_a_transpose_that_only_a_configured_operand_reads_is_free():
    made = Builder()
    turned = made.transpose((64, 32), made.add("parameter", (32, 64)), (1, 0))
    node = made.add("dot", (64, 16), turned, made.add("parameter", (32, 16)))
    own = (turned, (0, 1), (1, 0), Reason.TRANSPOSE)
    without, configured = told_effects(made, [node], [[UNSET], [((), (1, 0), ())]])
    assert without["copies"] == {own}, "as in the program as it stands"
    assert configured["copies"] == {(turned, (0, 1), (1, 0), Reason.CONFIGURED)}, (
        "instead of the transpose's"
    )
    made.add("tanh", (64, 32), turned)
    _, configured = told_effects(made, [node], [[UNSET], [((), (0, 1), ())]])
    assert configured["copies"] == {(turned, (0, 1), (1, 0), Reason.DOT_OPERAND)}


def test_operations_that_write_in_any_order_write_in_the_one_that_is_configured():
    made = Builder()
    wide = made.add("broadcast", (64, 32), made.add("parameter", (32,)))
    node = made.add("dot", (64, 16), wide, made.add("parameter", (32, 16)))
    result = effect_of(made, [node], [((), (0, 1), ())])
    assert result["copies"] == {(wide, (0, 1), (1, 0), Reason.DOT_OPERAND)}
    assert result["off_layout"] == {(wide, (0, 1))}
    made.add("tanh", (64, 32), wide)
    result = effect_of(made, [node], [((), (0, 1), ())])
    assert (
        not result["off_layout"] and (wide, (1, 0), (0, 1), Reason.CONFIGURED) in result["copies"]
    )


def test_a_reshape_is_read_and_written_as_the_program_has_it():
    made = Builder()
    x = made.add("parameter", (8, 16, 4))
    flat = made.add("reshape", (128, 4), made.add("tanh", (8, 16, 4), x))
    last = made.add("tanh", (128, 4), flat)
    result = effect_of(made, [flat], [((0, 1), (0, 1, 2), ())])
    assert result["copies"] == {
        (x, (2, 1, 0), (0, 1, 2), Reason.CONFIGURED),
        (flat, (0, 1, 2), (1, 0, 2), Reason.RESHAPE_OUTPUT),  # of 8, 16 and 4 elements
        (flat, (0, 1), (1, 0), Reason.READER),
    }
    assert effect_of(made, [flat], [((), (0, 1, 2), ())])["copies"] == {
        (x, (2, 1, 0), (0, 1, 2), Reason.CONFIGURED),
        (last, (0, 1, 2), (2, 1, 0), Reason.RESHAPE_OPERAND),
    }
    assert effect_of(made, [flat], [((0, 1), (), ())])["copies"] == {
        (flat, (2, 1, 0), (1, 0, 2), Reason.RESHAPE_OUTPUT),
        (flat, (0, 1), (1, 0), Reason.READER),
    }
