"""The encoding against the official code's outputs, and in corners those do not reach."""

from __future__ import annotations

import numpy as np
import pytest

from lib.files.errors import DataError
from lib.tpugraphs import opcodes, schema_pb2
from lib.tpugraphs.encoding import (
    FEATURE_NAMES,
    TILE_FEATURE_NAMES,
    configurable_positions,
    encode_module,
)
from lib.tpugraphs.schema_pb2 import HloModuleProto
from tests.tpugraphs.builders import chain, computation, instruction, module, one


def features(hlo: HloModuleProto, pad: int = 0, node: int = 0) -> dict[str, float]:
    return dict(zip(FEATURE_NAMES, encode_module(hlo, pad).node_feat[node].tolist(), strict=True))


def test_names_are_the_official_ones(layout_golden, shared):
    assert layout_golden["feature_names"].tolist() == list(FEATURE_NAMES)
    (tile,) = (shared / "golden").glob("tile_golden_0_*.npz")
    assert np.load(tile)["tile_feature_names"].tolist() == list(TILE_FEATURE_NAMES)


def test_configurable_positions(layout_tuning, layout_golden):
    found = configurable_positions(layout_tuning.module)
    assert set(layout_golden["node_config_ids"].tolist()) <= set(found.tolist())
    assert configurable_positions(chain()).tolist() == [1, 2]
    assert configurable_positions(module()).shape == (0,)


def test_unknown_opcode_is_zero():
    hlo = module(computation("main", 1, instruction(1, "no-such-op"), instruction(2, "")))
    assert encode_module(hlo).node_opcode.tolist() == [0, 0]


def test_unknown_element_type_gives_an_all_zero_block():
    for value in (19, 29, 2**31 - 1, -1):
        row = encode_module(one(shape={"element_type": value})).node_feat[0]
        assert not row[2:21].any()
    assert features(one(shape={"element_type": 16}))["shape_element_type_is_bf16"] == 1
    assert features(one())["shape_element_type_is_invalid_type"] == 1


def test_sums_and_products_wrap_at_64_bits():
    row = features(one(shape={"dimensions": [2**32, 2**31]}))
    assert row["shape_dimensions_product"] == -(2.0**63)
    row = features(one(shape={"dimensions": [2**32, 2**32]}))
    assert row["shape_dimensions_product"] == 0
    row = features(one(shape={"dimensions": [2**62, 2**62]}))
    assert row["shape_dimensions_sum"] == -(2.0**63)
    row = features(one(shape={"dimensions": [-(2**63), -1]}))
    assert row["shape_dimensions_sum"] == np.float32(2**63 - 1)


def test_aggregates_include_what_is_cut_off():
    row = features(one(shape={"dimensions": [1, 2, 3, 4, 5, 6, 7]}))
    assert [row[f"shape_dimensions_{i}"] for i in range(6)] == [1, 2, 3, 4, 5, 6]
    assert (row["shape_dimensions_sum"], row["shape_dimensions_product"]) == (28, 5040)


def test_order_of_slices_and_counts_of_reversals():
    slices = [{"start": 1, "limit": 10, "stride": 2}]
    window = {"dimensions": [{"window_reversal": True}, {}, {"padding_low": -3}]}
    row = encode_module(one(slice_dimensions=slices, window=window), pad=0).node_feat[0]
    assert row[[109, 113, 117]].tolist() == [1, 2, 10]
    assert row[[91, 92]].tolist() == [1, 2]
    assert features(one(window=window))["window_padding_low_2"] == -3


def test_duplicate_operands_give_one_edge_in_order_of_ids():
    parts = [instruction(9, "parameter"), instruction(3, "constant"), instruction(0, "constant")]
    hlo = module(computation("main", 1, *parts, instruction(5, "add", operand_ids=[9, 3, 9, 0])))
    assert encode_module(hlo).edge_index.tolist() == [[3, 2], [3, 1], [3, 0]]


def test_calls_point_at_the_callee_root_without_deduplication():
    callee = computation("f", 40, instruction(1), instruction(2), root=1)
    call = instruction(3, "call", called_computation_ids=[40, 40], operand_ids=[])
    graph = encode_module(module(callee, computation("main", 41, call)))
    assert graph.edge_index.tolist() == [[2, 0], [2, 0]]
    assert graph.node_feat[:, 0].tolist() == [1, 0, 1]


def test_a_repeated_id_means_the_later_instruction():
    parts = [instruction(1), instruction(1), instruction(2, operand_ids=[1])]
    assert encode_module(module(computation("main", 1, *parts))).edge_index.tolist() == [[2, 1]]


def test_splits_end_after_clusters_whiles_and_conds():
    names = ["add", "while_body", "region", "second", "Cond", "tail"]
    parts = [computation(name, i, instruction(i)) for i, name in enumerate(names)]
    assert encode_module(module(*parts)).node_splits.tolist() == [0, 2, 4, 6]
    assert encode_module(module(*parts[:2])).node_splits.tolist() == [0, 2]
    assert encode_module(module()).node_splits.tolist() == [0]


@pytest.mark.parametrize("field", ["operand_ids", "called_computation_ids"])
def test_a_dangling_reference_is_an_error(field):
    with pytest.raises(DataError, match=r"a\.pb: instruction 'add\.7'.*77"):
        encode_module(one(**{field: [77]}), source="a.pb")


def test_opcode_table_is_that_of_the_format(shared):
    text = (shared / "FORMAT.md").read_text()
    table = text.split("<!-- opcodes -->")[1].split("<!-- /opcodes -->")[0]
    cells = [cell.split() for cell in table.replace("|", "\n").splitlines() if "`" in cell]
    expected = {int(number): name.strip("`") for number, name in cells}
    assert dict(opcodes.NAME_OF_ID) == expected
    assert opcodes.MAX_ID == len(opcodes.ID_OF_NAME) == 120


# What XLA dumps, and a layout search needs, beside the format.
OF_DUMPS = {
    ("HloProto", "hlo_module"),
    *(("HloModuleProto", name) for name in ("buffer_donor", "input_output_alias")),
    *(("HloInstructionProto", name) for name in ("constrain_layout", "custom_call_target")),
    ("HloInstructionProto", "operand_shapes_with_layout"),
}


def test_schema_is_that_of_the_format(shared):
    text = (shared / "FORMAT.md").read_text()
    table = text.split("<!-- schema -->")[1].split("<!-- /schema -->")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.split("\n")]
    rows = [row for row in rows if len(row) == 4 and row[2].isdigit()]
    messages = schema_pb2.DESCRIPTOR.message_types_by_name.values()
    known = {(message.name, field.name) for message in messages for field in message.fields}
    assert known - {(row[0], row[1]) for row in rows} == OF_DUMPS
    for message, name, number, kind in rows:
        field = schema_pb2.DESCRIPTOR.message_types_by_name[message].fields_by_name[name]
        assert field.number == int(number)
        assert field.is_repeated == kind.startswith("rep ")
        bare = kind.removeprefix("rep ")
        types = {field.TYPE_INT64: "int64", field.TYPE_UINT64: "uint64", field.TYPE_BOOL: "bool"}
        types |= {field.TYPE_INT32: "int32", field.TYPE_STRING: "string"}
        assert types.get(field.type) == bare or field.message_type.name == bare
