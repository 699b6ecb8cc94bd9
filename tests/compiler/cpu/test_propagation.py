"""Layouts in small programs: what must not matter."""

from __future__ import annotations

import numpy as np
import pytest

from lib.compiler.cpu.effects import Reason
from tests.compiler.builders import (
    OTHER,
    PLAIN,
    SHAPE,
    THIRD,
    Builder,
    network,
    resolved,
    told_effects,
)


def test_an_output_alone_is_turned_back_by_who_reads_it():
    made, nodes = network()
    configurable = [nodes["first"], nodes["second"]]
    _, result = told_effects(
        made, configurable, [[((), (), ())] * 2, [(OTHER, (), ()), ((), (), ())]]
    )
    assert result["copies"] == {
        (nodes["first"], PLAIN, OTHER, Reason.CONVOLUTION_OUTPUT),
        (nodes["first"], OTHER, PLAIN, Reason.READER),  # tanh writes what the convolution prefers
    }
    assert not result["off_layout"]


def test_a_parameter_is_copied_there_and_back():
    made, nodes = network()
    _, result = told_effects(made, [nodes["first"]], [[((), (), ())], [((), THIRD, ())]])
    assert result["copies"] == {
        (nodes["image"], PLAIN, THIRD, Reason.CONFIGURED),
        (nodes["image"], THIRD, PLAIN, Reason.CONVOLUTION_OPERAND),
    }


def test_a_layout_that_is_no_permutation_is_ignored():
    made, nodes = network()
    configured = [[((), (), ())], [((), (3, 3, 1, 0), ())]]
    none, odd = told_effects(made, [nodes["first"]], configured)
    assert odd == none


@pytest.mark.parametrize("edges", [[(2, 3), (3, 2)], [(2, 2)]])
def test_a_cycle_of_a_broken_file_is_left_out(edges):
    made, nodes = network()
    made.edges += edges
    configurations = [[((), (), ())], [(OTHER, OTHER, ())]]
    nothing, configured = told_effects(made, [nodes["first"]], configurations)
    assert nothing == {"copies": set(), "off_layout": set()}
    touched = {effect[0] for effects in configured.values() for effect in effects}
    assert touched.isdisjoint({node for edge in edges for node in edge})


@pytest.mark.parametrize("opcode", ["tanh", "add", "reduce", "custom-call", "copy"])
def test_a_configurable_node_of_any_operation(opcode):
    """With no layout set nothing is copied; with one, its tensors are copied for it."""
    made = Builder()
    image = made.add("parameter", SHAPE)
    before = made.add("tanh", SHAPE, image)
    node = made.add(opcode, SHAPE, before)
    made.add("tanh", SHAPE, node, is_root=1)
    configurations = [[((), (), ())], [(OTHER, OTHER, ())]]
    nothing, configured = told_effects(made, [node], configurations)
    assert nothing == {"copies": set(), "off_layout": set()}
    assert {copy[0] for copy in configured["copies"]} & {before, node, image}


def test_a_transpose_with_a_second_operand_is_none():
    """No compiler writes one; its permutation would be looked up for a tensor of another rank."""
    made = Builder()
    one, other = made.add("parameter", (8, 4)), made.add("parameter", (2, 8, 4))
    turned = made.transpose((4, 8), one, (1, 0))
    made.edges.append((turned, other))
    node = made.add("reshape", (2, 16), turned)
    graph = made.graph([node], [[((), (1, 0), ())], [((), (0, 1), ())]])
    assert np.isfinite(resolved(graph).effect_feat).all()
