"""A module in which layouts are set, as XLA takes it: what a configuration is when it is compiled.

XLA has an instruction for it, the custom call ``LayoutConstraint``, which passes a tensor on in a
layout. (It is what ``with_layout_constraint`` of JAX becomes.)
"""

from __future__ import annotations

from itertools import count
from pathlib import Path

import numpy as np

from lib.files.errors import DataError
from lib.tpugraphs.program import TENSOR_DIMS, TENSORS, written
from lib.tpugraphs.schema_pb2 import (
    HloComputationProto,
    HloInstructionProto,
    HloModuleProto,
    ShapeProto,
)

TARGET = "LayoutConstraint"


def constrained(
    path: Path, module: HloModuleProto, ids: np.ndarray, features: np.ndarray
) -> HloModuleProto:
    """The module under a configuration.

    What the program gives back is row-major, as it is of JAX's programs, whatever the instructions
    say that compute it (a transposition at the end has its operand's layout); a constraint that
    reaches an output must not become the output's. Inputs are not written over, for it runs many
    times.

    Args:
        path, module: for messages, and as it was before any optimization.
        ids: (k,) positions of the sites among all instructions, in file order.
        features: (k, 18) digits of output, input and kernel, minor to major, -1 padded.

    Raises:
        DataError: a layout is not one that its tensor can have.
    """
    changed = HloModuleProto()
    changed.CopyFrom(module)
    for name in ("input_output_alias", "buffer_donor"):
        changed.ClearField(name)
    instructions = [
        inst for computation in changed.computations for inst in computation.instructions
    ]
    taken = {inst.id for inst in instructions}
    digits = features.reshape(-1, len(TENSORS), TENSOR_DIMS).tolist()
    layouts = {
        instructions[place].id: [[d for d in layout if d >= 0] for layout in site]
        for place, site in zip(ids.tolist(), digits, strict=True)
    }
    for computation in changed.computations:
        entry = computation.id == changed.entry_computation_id
        _rewrite(path, computation, layouts, taken, entry)
    return changed


def _rewrite(
    path: Path,
    computation: HloComputationProto,
    layouts: dict[int, list[list[int]]],
    taken: set[int],
    entry: bool,
) -> None:
    """Write a computation's instructions again with constraints between them.

    Outputs of the ``entry`` are held to row-major. ``taken`` are ids that no new instruction gets.
    """
    shapes = {inst.id: inst.shape for inst in computation.instructions}
    rewritten: list[HloInstructionProto] = []
    stands_for: dict[int, int] = {}  # of a constrained output: what its readers read
    unused = count(max(shapes, default=0) + 1)  # XLA wants ids of a computation to be adjacent

    def constraint(source: int, layout: list[int], name: str, role: str) -> int:
        """Return the id of a new instruction that passes a tensor on in a layout."""
        shape = ShapeProto()
        shape.CopyFrom(shapes[source])
        rank = len(shape.dimensions)
        if sorted(layout) != list(range(rank)):
            shown = written(layout)
            raise DataError(path, f"{name}, {role}", shown, f"all of 0..{rank - 1}, each once")
        shape.layout.minor_to_major[:] = layout
        number = next(number for number in unused if number not in taken)
        taken.add(number)
        shapes[number] = shape
        rewritten.append(_constraint(number, source, shape))
        return number

    for inst in list(computation.instructions):
        output, *operands = layouts.get(inst.id, [[], [], []])
        for number in inst.operand_ids:
            if number not in shapes:
                raise DataError(path, inst.name, f"operand {number}", "one of its part")
        read = [stands_for.get(number, number) for number in inst.operand_ids]
        root = entry and inst.id == computation.root_id
        if root and inst.opcode == "tuple":
            operands = [_row_major(shapes[number]) for number in inst.operand_ids]
        for place, layout in enumerate(operands[: len(read)]):
            if layout:
                role = TENSORS[min(place, 1) + 1]
                read[place] = constraint(read[place], layout, inst.name, role)
        inst.operand_ids[:] = read
        rewritten.append(inst)
        for layout in (output, _row_major(inst.shape) if root else []):
            if layout:
                last = stands_for.get(inst.id, inst.id)
                stands_for[inst.id] = constraint(last, layout, inst.name, TENSORS[0])
    computation.root_id = stands_for.get(computation.root_id, computation.root_id)
    body = HloComputationProto(instructions=rewritten)
    computation.ClearField("instructions")
    computation.instructions.extend(body.instructions)


def _constraint(number: int, source: int, shape: ShapeProto) -> HloInstructionProto:
    """Return an instruction that passes a tensor on in the layout of a shape."""
    return HloInstructionProto(
        name=f"layout.{number}",
        opcode="custom-call",
        shape=shape,
        id=number,
        operand_ids=[source],
        custom_call_target=TARGET,
        constrain_layout=True,
        operand_shapes_with_layout=[shape],
    )


def _row_major(shape: ShapeProto) -> list[int]:
    """The row-major layout of a tensor; none of a tuple or a number."""
    rank = len(shape.dimensions)
    return [] if shape.tuple_shapes or rank < 2 else [*range(rank)][::-1]
