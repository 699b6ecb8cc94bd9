"""Layouts that no tensor can have are told, whatever form they come in."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from lib.files.errors import DataError
from lib.scoring.possible import check_layouts
from lib.tpugraphs.npz import LayoutGraph
from lib.tpugraphs.program import Program, with_candidates
from tests.compiler.builders import Builder


@pytest.fixture
def program() -> Program:
    """A convolution of rank 4, the reshape of its output, and a dot of ranks 2 and 3."""
    made = Builder()
    image, weights = made.add("parameter", (4, 8, 8, 16)), made.add("parameter", (3, 3, 16, 16))
    conv = made.convolution((4, 8, 8, 16), image, weights)
    flat = made.add("reshape", (256, 16), conv)
    dot = made.add("dot", (16, 5, 7), flat, made.add("parameter", (256, 5, 7)))
    scalar = made.add("reshape", (), made.add("parameter", (1,)))
    sites = np.array([conv, flat, dot, scalar])
    graph = LayoutGraph(
        name="program",
        node_feat=np.stack(made.features),
        node_opcode=np.array(made.opcodes, np.uint8),
        edge_index=np.array(made.edges),
        node_config_ids=sites,
        node_splits=np.array([0, len(made.opcodes)]),
        node_config_feat=np.empty((0, len(sites), 18), np.int8),
        config_runtime=np.empty(0, np.int64),
    )
    names = [f"n{index}" for index in range(len(made.opcodes))]
    for site, name in zip(sites, ("conv", "flat", "dot", "scalar"), strict=True):
        names[site] = name
    return Program(Path("program.pb"), graph, names)


def check(program: Program, folder: Path, layouts: dict, hardware: str) -> None:
    path = folder / "c.jsonl"
    path.write_text("{}\n" + json.dumps(layouts) + "\n")
    check_layouts(path, with_candidates(program, path), hardware)


@pytest.mark.parametrize(
    "layouts",
    [
        {"conv": {"output": "{3,2,1,0}", "input": "{0,3,1,2}", "kernel": [3, 2, 1, 0]}},
        {"flat": {"output": "{0,1}", "input": "{3,2,1,0}"}, "scalar": {"input": "{0}"}},
        {"dot": {"output": "{0,1,2}", "input": "{2,1,0}", "kernel": "{1,0}"}},
        {"dot": {"input": "{1,0}", "kernel": "{2,0,1}"}, "scalar": {"output": "{}"}},
    ],
)
@pytest.mark.parametrize("hardware", ["cpu", "tpu"])
def test_what_tensors_can_have(program, tmp_path, layouts, hardware):
    check(program, tmp_path, layouts, hardware)


@pytest.mark.parametrize("layout", ["{1,0}", "{3}", "{0,3}", "{3,2,1}"])
def test_a_layout_names_some_dimensions_on_a_tpu_only(program, tmp_path, layout):
    check(program, tmp_path, {"conv": dict.fromkeys(("output", "kernel"), layout)}, "tpu")
    told = r"c\.jsonl: configuration 1, conv, output: found \{.*\}, expected all of .* 0\.\.3,"
    with pytest.raises(DataError, match=told):
        check(program, tmp_path, {"conv": {"output": layout}}, "cpu")


@pytest.mark.parametrize(
    ("layouts", "told"),
    [
        (
            {"flat": {"kernel": "{1,0}"}},
            r"flat, kernel: found \{1,0\}, .* a reshape has no",
        ),
        ({"flat": {"output": "{2,0}"}}, r"flat, output: found \{2,0\}, expected .* 0\.\.1, each"),
        ({"conv": {"input": "{4,3,2,1,0}"}}, r"conv, input: .* 0\.\.3, each once"),
        ({"dot": {"kernel": "{3,0}"}}, r"dot, kernel: .* 0\.\.1 or 0\.\.2, each once"),
        ({"scalar": {"output": "{0}"}}, r"scalar, output: .* no output with dimensions"),
    ],
)
@pytest.mark.parametrize("hardware", ["cpu", "tpu"])
def test_what_no_tensor_can_have(program, tmp_path, layouts, told, hardware):
    with pytest.raises(DataError, match=told):
        check(program, tmp_path, layouts, hardware)


@pytest.mark.parametrize("digits", [[1, 1], [-1, 0, 1]])
def test_an_npz_may_name_a_dimension_twice_or_leave_a_gap(program, tmp_path, digits):
    features = np.full((3, 4, 18), -1)
    features[2, 1, : len(digits)] = digits
    np.savez(tmp_path / "c.npz", node_config_feat=features)
    found = with_candidates(program, tmp_path / "c.npz")
    with pytest.raises(DataError, match="configuration 2, flat, output"):
        check_layouts(tmp_path / "c.npz", found, "tpu")
