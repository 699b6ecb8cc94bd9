"""From an HLO module to the 140 node features, opcodes, edges and splits of the official encoding.

Written from FORMAT.md, sections 2-5; section numbers below refer to it. Every feature is a signed
64-bit integer until the whole table is built, and only then rounded to float32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from lib.files.errors import DataError
from lib.tpugraphs import opcodes
from lib.tpugraphs.schema_pb2 import HloComputationProto, HloInstructionProto, HloModuleProto

MAJOR_COMPUTATIONS = ("cluster", "while", "cond")  # substrings of names that end a split
CONFIGURABLE = (opcodes.CONVOLUTION, opcodes.DOT, opcodes.RESHAPE)

# Column order of the one-hot, which is not the numeric order of the enum.
ELEMENT_TYPES = {
    "invalid_type": 0, "pred": 1, "s8": 2, "s16": 3, "s32": 4, "s64": 5, "u8": 6, "u16": 7,
    "u32": 8, "u64": 9, "f16": 10, "f32": 11, "f64": 12, "bf16": 16, "c64": 15, "c128": 18,
    "tuple": 13, "opaque_type": 14, "token": 17,
}  # fmt: skip
Read = Callable[[HloInstructionProto], Sequence[int]]  # a list of numbers of an instruction


@dataclass(frozen=True, eq=False)
class EncodedGraph:
    """A module as arrays: n nodes, m edges.

    Attributes:
        node_feat: (n, 140) float32, columns named by ``FEATURE_NAMES``.
        node_opcode: (n,) uint8, 0 for an opcode that is not in the table.
        edge_index: (m, 2) int64, rows [user, operand] in insertion order.
        node_splits: (k,) int64, non-decreasing, from 0 to n.
    """

    node_feat: np.ndarray
    node_opcode: np.ndarray
    edge_index: np.ndarray
    node_splits: np.ndarray


def leading(values: Sequence[int], k: int, fill: int = 0) -> list[int]:
    """The first k elements, filled on the right: "leading only" of section 4."""
    head = [int(value) for value in values[:k]]
    return head + [fill] * (k - len(head))


def aggregated(values: Sequence[int], k: int, empty_product: int = 1) -> list[int]:
    """The first k elements, zero-filled, then sum and product of all: k + 2 signed 64-bit integers.

    The product of an empty list is 1 in node features (section 4), 0 in tile features (section 7).
    """
    product = 1 if values else empty_product
    for value in values:
        product = product * value % 2**64
    # As the machine does on overflow.
    return [*leading(values, k), *((x + 2**63) % 2**64 - 2**63 for x in (sum(values), product))]


@dataclass(frozen=True)
class _Block:
    """Adjacent columns: their names, and their values for (instruction, padding)."""

    names: tuple[str, ...]
    values: Callable[[HloInstructionProto, int], list[int]]


def _numbered(prefix: str, k: int) -> tuple[str, ...]:
    return tuple(f"{prefix}_{i}" for i in range(k))


def _aggregated_names(prefix: str, k: int) -> tuple[str, ...]:
    return (*_numbered(prefix, k), f"{prefix}_sum", f"{prefix}_product")


def _copied(name: str, read: Callable[[HloInstructionProto], int]) -> _Block:
    return _Block((name,), lambda inst, pad: [int(read(inst))])


def _leading(prefix: str, k: int, read: Read) -> _Block:
    return _Block(_numbered(prefix, k), lambda inst, pad: leading(read(inst), k, pad))


def _aggregated(prefix: str, k: int, read: Read) -> _Block:
    return _Block(_aggregated_names(prefix, k), lambda inst, pad: aggregated(read(inst), k))


def _each(
    prefix: str,
    k: int,
    items: Callable[[HloInstructionProto], Iterable[object]],
    fields: Sequence[str],
) -> list[_Block]:
    """One aggregated block per field of a list of messages."""

    def read(field: str) -> Read:
        return lambda inst: [getattr(item, field) for item in items(inst)]

    return [_aggregated(f"{prefix}_{field}", k, read(field)) for field in fields]


def _element_type(inst: HloInstructionProto, pad: int) -> list[int]:
    return [int(inst.shape.element_type == value) for value in ELEMENT_TYPES.values()]


def _window_reversal(inst: HloInstructionProto, pad: int) -> list[int]:
    flags = [int(dimension.window_reversal) for dimension in inst.window.dimensions]
    return [*leading(flags, 6), sum(flags), len(flags) - sum(flags)]


def _convolution(name: str) -> _Block:
    """A number that is copied, or a list of up to four spatial dimensions, padded."""

    def read(inst: HloInstructionProto) -> Any:
        return getattr(inst.convolution_dimension_numbers, name.replace("_dim", "_dimension"))

    column = f"convolution_dim_numbers_{name}"
    return _leading(column, 4, read) if name.endswith("s") else _copied(column, read)


_CONVOLUTION = (  # columns 93-106, in the order of section 4
    *("input_batch_dim", "input_feature_dim", "input_spatial_dims"),
    *("kernel_input_feature_dim", "kernel_output_feature_dim", "kernel_spatial_dims"),
    *("output_batch_dim", "output_feature_dim"),
)
_WINDOW = ("size", "stride", "padding_low", "padding_high", "window_dilation", "base_dilation")
_PADDING = ("edge_padding_low", "edge_padding_high")
_BLOCKS = (
    # Column 0, is_root, needs the computation and is set by encode_module.
    _copied("element_size_in_bits", lambda inst: 0),
    _Block(tuple(f"shape_element_type_is_{name}" for name in ELEMENT_TYPES), _element_type),
    _aggregated("shape_dimensions", 6, lambda inst: inst.shape.dimensions),
    _copied("shape_tuple_shapes_size", lambda inst: len(inst.shape.tuple_shapes)),
    _copied("parameter_number", lambda inst: inst.parameter_number),
    _leading("dimensions", 6, lambda inst: inst.dimensions),
    *_each("window", 6, lambda inst: inst.window.dimensions, _WINDOW),
    _Block(
        (
            *_numbered("window_window_reversal", 6),
            "window_window_reversal_true_count",
            "window_window_reversal_false_count",
        ),
        _window_reversal,
    ),
    *map(_convolution, _CONVOLUTION),
    _copied("feature_group_count", lambda inst: inst.feature_group_count),
    _copied("batch_group_count", lambda inst: inst.batch_group_count),
    *_each("slice_dims", 2, lambda inst: inst.slice_dimensions, ("start", "stride", "limit")),
    _aggregated("dynamic_slice_sizes", 2, lambda inst: inst.dynamic_slice_sizes),
    *_each("padding_config", 2, lambda inst: inst.padding_config.dimensions, _PADDING),
    _copied("is_stable", lambda inst: inst.is_stable),
    _leading("layout_minor_to_major", 6, lambda inst: inst.shape.layout.minor_to_major),
)

FEATURE_NAMES: tuple[str, ...] = ("is_root", *(name for block in _BLOCKS for name in block.names))
TILE_FEATURE_NAMES: tuple[str, ...] = tuple(
    name
    for bounds in ("kernel_bounds", "output_bounds", "input_bounds")
    for name in _aggregated_names(bounds, 6)
)


def encode_module(
    module: HloModuleProto, pad: int = -1, source: Path | str = "HloModuleProto"
) -> EncodedGraph:
    """Encode a module as the official featurizer does (sections 2-5, and 8 for ``pad=-1``).

    Args:
        module: every computation of it is encoded, in file order.
        pad: fill of the 20 "leading only" columns, 0 (official) or -1 (section 8).
        source: what an error names as the file.

    Raises:
        DataError: an operand or a called computation is not in the module.
    """
    instructions = [inst for comp in module.computations for inst in comp.instructions]
    values = np.zeros((len(instructions), len(FEATURE_NAMES)), np.int64)
    values[:, 0] = [i.id == c.root_id for c in module.computations for i in c.instructions]
    for row, inst in zip(values, instructions, strict=True):
        row[1:] = [value for block in _BLOCKS for value in block.values(inst, pad)]
    return EncodedGraph(
        node_feat=values.astype(np.float32),
        node_opcode=np.array([opcodes.opcode_id(i.opcode) for i in instructions], np.uint8),
        edge_index=_edges(instructions, module.computations, source),
        node_splits=_splits(module.computations),
    )


def configurable_positions(module: HloModuleProto) -> np.ndarray:
    """Node positions, (k,) int64 and increasing, of convolution, dot and reshape instructions."""
    instructions = (inst for comp in module.computations for inst in comp.instructions)
    ids = [opcodes.opcode_id(inst.opcode) for inst in instructions]
    return np.flatnonzero(np.isin(ids, CONFIGURABLE)).astype(np.int64)


def _edges(
    instructions: Sequence[HloInstructionProto],
    computations: Sequence[HloComputationProto],
    source: Path | str,
) -> np.ndarray:
    """Rows [user, operand] and [caller, callee's root], (m, 2) int64 (section 5)."""
    position = {inst.id: index for index, inst in enumerate(instructions)}  # the later id wins
    root = {computation.id: computation.root_id for computation in computations}
    rows = []
    for index, inst in enumerate(instructions):
        where = f"instruction {inst.name!r}"
        for operand in sorted(set(inst.operand_ids)):
            if operand not in position:
                raise DataError(source, where, f"operand id {operand}", "an instruction's id")
            rows.append((index, position[operand]))
        for callee in inst.called_computation_ids:
            if callee not in root or root[callee] not in position:
                actual = f"called computation id {callee}"
                raise DataError(source, where, actual, "a computation with a root")
            rows.append((index, position[root[callee]]))
    return np.array(rows, np.int64).reshape(-1, 2)


def _splits(computations: Iterable[HloComputationProto]) -> np.ndarray:
    """Ends of the segments that ``cluster``, ``while`` and ``cond`` computations close."""
    splits, count = [0], 0
    for computation in computations:
        count += len(computation.instructions)
        if any(part in computation.name for part in MAJOR_COMPUTATIONS):
            splits.append(count)
    if splits[-1] < count:
        splits.append(count)
    return np.array(splits, np.int64)
