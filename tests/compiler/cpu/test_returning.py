"""Layouts that return to the program's own at once: small programs, by hand."""

from __future__ import annotations

from lib.compiler.cpu.effects import Reason
from tests.compiler.builders import OTHER, PLAIN, THIRD, Builder, network, told_effects

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
