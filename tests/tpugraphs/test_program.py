"""Programs to rank, and files of candidate configurations."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.files.errors import DataError
from lib.tpugraphs.npz import write_layout
from lib.tpugraphs.program import layouts, parse_layout, read_program, with_candidates
from lib.tpugraphs.schema_pb2 import ModuleTuningData
from tests.synthetic import layout_graph
from tests.tpugraphs.builders import computation, instruction, module

TUNING = Path(__file__).resolve().parents[3] / "shared/tpugraphs/module_tuning_data_layout.pb"
needs_tuning = pytest.mark.skipif(not TUNING.exists(), reason="needs ../shared")


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "net.v1.npz"
    write_layout(path, layout_graph("net.v1", 0, configurable=3))
    return read_program(path)


def test_an_npz_has_configurations_and_no_names(program):
    assert program.graph.name == "net.v1"
    assert program.names is None
    assert program.graph.node_config_feat.shape == (20, 3, 18)


@needs_tuning
def test_a_tuning_protobuf_has_names_and_an_hlo_module_has_no_configurations(tmp_path):
    tuning = read_program(TUNING)
    assert tuning.graph.node_config_feat.shape == (112, 62, 18)
    module = ModuleTuningData.FromString(TUNING.read_bytes()).module
    (tmp_path / "a.hlo.pb").write_bytes(module.SerializeToString())
    hlo = read_program(tmp_path / "a.hlo.pb")
    assert hlo.graph.node_config_feat.shape == (0, 62, 18)
    assert hlo.names == tuning.names
    assert np.array_equal(hlo.graph.node_feat, tuning.graph.node_feat)
    first = hlo.names[hlo.graph.node_config_ids[0]]
    path = tmp_path / "candidates.jsonl"
    path.write_text(json.dumps({first: {"output": "{1,0}"}}) + "\n{}\n")
    graph = with_candidates(hlo, path).graph
    assert graph.node_config_feat.shape == (2, 62, 18)
    assert graph.node_config_feat[0, 0, :3].tolist() == [1, 0, -1]
    assert (graph.node_config_feat[1] == -1).all()


def test_candidates_in_an_npz(program, tmp_path):
    features = np.full((4, 2, 18), -1.0, np.float32)
    features[:, :, :2] = [0, 1]
    ids = program.graph.node_config_ids[[2, 0]]
    np.savez(tmp_path / "c.npz", node_config_feat=features, node_config_ids=ids)
    graph = with_candidates(program, tmp_path / "c.npz").graph
    assert np.array_equal(graph.node_config_ids, ids)
    assert np.array_equal(graph.node_config_feat, features)
    assert graph.config_runtime.tolist() == [0] * 4


def test_candidates_by_node_position(program, tmp_path):
    node = int(program.graph.node_config_ids[1])
    site = {"output": [1, 0], "input": None, "kernel": "{0}"}
    (tmp_path / "c.jsonl").write_text(f'\n{{"{node}": {json.dumps(site)}}}\n')
    features = with_candidates(program, tmp_path / "c.jsonl").graph.node_config_feat
    assert features.shape == (1, 3, 18)
    assert layouts(features[0, 1]) == {"output": [1, 0], "input": None, "kernel": [0]}
    assert (features[0, [0, 2]] == -1).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "at least one"),
        ("{", "line 1"),
        ("[]", "a JSON object"),
        ('{"dot.9": {}}', "no such site"),
        ('{"%d": {"outputs": [0]}}', "an object of output, input, kernel"),
        ('{"%d": [0, 1]}', "an object of output, input, kernel"),
        ('{"%d": {"output": "{0,6}"}}', "a layout such as"),
        ('{"%d": {"output": "{0;1}"}}', "a layout such as"),
        ('{"%d": {"output": [true]}}', "a layout such as"),
        ('{"%d": {"output": "1,0"}}', "a layout such as"),
        ('{"%d": {"output": "{²}"}}', "a layout such as"),
        ('{"%d": {"output": "{' + "9" * 5000 + '}"}}', "a layout such as"),
        ('{"%d": {"output": ' + "9" * 5000 + "}}", "line 1: found .* digits"),
        ('{"%d": {}, "%d": {}}', "line 1: found %d twice"),
        ('{"%d": {"output": "{0}", "output": "{1}"}}', "line 1: found output twice"),
        ("[" * 100_000, "line 1: found values too deep in one another"),
        ("\ufeff{}", "line 1"),
    ],
)
def test_bad_candidates_are_told_in_one_line(program, tmp_path, text, message):
    path = tmp_path / "c.jsonl"
    node = str(program.graph.node_config_ids[0])
    path.write_text(text.replace("%d", node))
    with pytest.raises(DataError, match=message.replace("%d", node)) as error:
        with_candidates(program, path)
    assert len(str(error.value)) < 500
    assert "c.jsonl" in str(error.value)


@pytest.mark.parametrize(
    "arrays",
    [
        {"other": np.zeros(3)},
        {"node_config_feat": np.array(3.0)},
        {"node_config_feat": np.full((2, 3, 18), None)},
        {"node_config_feat": np.full((2, 3, 18), 0.5)},
        {"node_config_feat": np.full((2, 3, 18), np.nan)},
        {"node_config_feat": np.full((2, 3, 18), 2**63, np.uint64)},
        {"node_config_feat": np.zeros((2, 1, 18)), "node_config_ids": np.array(0)},
        {"node_config_feat": np.zeros((2, 1, 18)), "node_config_ids": np.array([-1])},
        {"node_config_feat": np.zeros((2, 2, 18)), "node_config_ids": np.array([5, 5])},
        {"node_config_feat": np.zeros((2, 2, 18))},
        {"node_config_feat": np.zeros((0, 3, 18))},
        {"node_config_feat": np.zeros((2, 1, 18)), "node_config_ids": np.array([99])},
    ],
)
def test_bad_npz_candidates_are_told(program, tmp_path, arrays):
    np.savez(tmp_path / "c.npz", **arrays)
    with pytest.raises(DataError, match=r"c\.npz"):
        with_candidates(program, tmp_path / "c.npz")


@given(st.permutations(range(6)), st.integers(0, 6))
def test_layouts_are_read_as_they_are_written(order, rank):
    layout = list(order[:rank])
    text = "{" + ",".join(map(str, layout)) + "}"
    assert parse_layout(text) == parse_layout(layout) == layout
    features = np.full(18, -1)
    features[6 : 6 + rank] = layout
    assert layouts(features) == {"output": None, "input": layout or None, "kernel": None}


def test_sites_in_the_body_of_a_loop_are_counted(tmp_path):
    """Also those in what the body calls; a score counts each once, and make rank says so."""

    def part(number: int, *calls: tuple[str, int]):
        called = [
            instruction(10 * number + k, opcode, called_computation_ids=[to])
            for k, (opcode, to) in enumerate(calls, start=2)
        ]
        return computation(f"p{number}", number, instruction(10 * number, "dot"), *called)

    path = tmp_path / "a.pb"
    parts = part(4), part(3, ("call", 4)), part(2), part(1, ("while", 3), ("call", 2))
    path.write_bytes(module(*parts).SerializeToString())
    program = read_program(path)
    assert len(program.graph.node_config_ids) == 4
    assert program.sites_in_loops == 2
    assert replace(program, module=None).sites_in_loops == 0
