"""Graphs that no stage can use are refused by the first; preprocess/test_accepted.py has others."""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.tpugraphs.dataset import TPUGRAPHS
from lib.tpugraphs.encoding import FEATURE_NAMES
from lib.tpugraphs.npz import write_layout
from tests.stages import run_stage
from tests.synthetic import layout_graph, write_dataset
from tests.tpugraphs.builders import members, npy, rezip

RAW = Path("npz/layout/xla/default")


@pytest.mark.parametrize("flags", [(), ("--keep-going",)])
def test_a_negative_dimension_number_does_not_wait_for_stage_4(tmp_path, flags):
    for seed, name in enumerate(["good", "victim"]):
        path = tmp_path / "data" / RAW / "train" / f"{name}.npz"
        write_layout(path, layout_graph(name, seed))
    write_dataset(tmp_path / "data", TPUGRAPHS)
    graph = layout_graph("victim", 1)
    column = FEATURE_NAMES.index("convolution_dim_numbers_input_feature_dim")
    graph.node_feat[7, column] = -5
    rezip(path, members(path) | {"node_feat": npy(graph.node_feat)})
    folders = "--data", tmp_path / "data", "--outputs", tmp_path / "outputs"
    done = run_stage("01_preprocess.py", *folders, "--jobs", 1, *flags)
    said = (
        f"{path}: node_feat: found -5 in convolution_dim_numbers_input_feature_dim of node 7, "
        "expected integers in 0..9.22337e+18\n"
    )
    expected = (0, f"skipped: {said}") if flags else (2, f"error: {said}")
    assert (done.returncode, done.stderr) == expected
