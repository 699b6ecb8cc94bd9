"""Modules with layouts set; tests/collect/xla/test_timed.py has XLA compile them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lib.files.errors import DataError
from lib.tpugraphs.constrain import TARGET, constrained
from lib.tpugraphs.schema_pb2 import HloModuleProto
from tests.scoring.test_candidates import shape
from tests.tpugraphs.builders import computation, instruction, module

HIGH = 7 << 32  # XLA has the computation in the upper half of an id


def program() -> HloModuleProto:
    """A dot that is read twice, once by what is given back beside it."""
    made = module(
        computation("other", 1, instruction(HIGH + 4, "parameter", shape=shape(2, 3))),
        computation(
            "main",
            2,
            instruction(HIGH + 1, "parameter", shape=shape(4, 4, layout=[0, 1])),
            instruction(
                HIGH + 2, "dot", shape=shape(4, 4, layout=[0, 1]), operand_ids=[HIGH + 1, HIGH + 1]
            ),
            instruction(
                HIGH + 3, "tuple", shape={"tuple_shapes": [{}] * 2}, operand_ids=[HIGH + 2] * 2
            ),
        ),
    )
    made.entry_computation_id = 2
    made.input_output_alias.SetInParent()
    return made


def layouts(**roles) -> np.ndarray:
    """Digits of the one site."""
    digits = np.full((1, 3, 6), -1)
    for role, layout in roles.items():
        digits[0, ("output", "input", "kernel").index(role), : len(layout)] = layout
    return digits.reshape(1, 18)


def written(made: HloModuleProto) -> list[tuple[int, str, list[int], list[int]]]:
    """Each instruction of the entry: the number in its id, opcode, operands, and its layout."""
    entry = made.computations[1]
    assert entry.root_id == entry.instructions[-1].id
    return [
        (
            one.id - HIGH,
            one.opcode,
            [number - HIGH for number in one.operand_ids],
            list(one.shape.layout.minor_to_major),
        )
        for one in entry.instructions
    ]


def test_tensors_are_brought_into_layouts_and_outputs_are_row_major():
    plain, site = program(), np.array([2])
    made = constrained(Path("a"), plain, site, layouts(output=[0, 1], kernel=[1, 0]))
    assert written(made) == [
        (1, "parameter", [], [0, 1]),
        (5, "custom-call", [1], [1, 0]),  # of the kernel; 4 is taken
        (2, "dot", [1, 5], [0, 1]),
        (6, "custom-call", [2], [0, 1]),
        (7, "custom-call", [6], [1, 0]),
        (8, "custom-call", [6], [1, 0]),
        (3, "tuple", [7, 8], []),
    ]
    call = made.computations[1].instructions[1]
    assert (call.custom_call_target, call.constrain_layout) == (TARGET, True)
    assert call.operand_shapes_with_layout[0] == call.shape
    assert not made.HasField("input_output_alias") and plain == program()


def test_a_root_that_is_a_site():
    made = program()
    del made.computations[1].instructions[2]
    made.computations[1].root_id = HIGH + 2
    found = written(constrained(Path("a"), made, np.array([2]), layouts(output=[0, 1])))
    assert found[2:] == [(3, "custom-call", [2], [0, 1]), (5, "custom-call", [3], [1, 0])]


def test_a_layout_of_another_rank_is_told():
    expected = r"a\.pb: dot\.\d+, input: found \{2,1,0\}, expected all of 0\.\.1, each once"
    with pytest.raises(DataError, match=expected):
        constrained(Path("a.pb"), program(), np.array([2]), layouts(input=[2, 1, 0]))


def test_an_operand_of_another_computation_is_told():
    made = program()
    made.computations[1].instructions[1].operand_ids[1] = HIGH + 4
    with pytest.raises(DataError, match=rf"a\.pb: dot\.\d+: found operand {HIGH + 4}"):
        constrained(Path("a.pb"), made, np.array([2]), layouts(kernel=[1, 0]))
