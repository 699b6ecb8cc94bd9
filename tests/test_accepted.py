"""Graphs that are unlike any that is known, through the real stages of the default model."""

from __future__ import annotations

import runpy
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lib.scoring.submission import read_entries
from lib.tpugraphs.dataset import TPUGRAPHS
from lib.tpugraphs.encoding import FEATURE_NAMES
from lib.tpugraphs.npz import write_layout
from lib.tpugraphs.opcodes import ID_OF_NAME
from tests.builders import COLLECTION
from tests.stages import REPOSITORY, TINY_FLAGS, run_stage
from tests.synthetic import layout_graph, write_dataset
from tests.tpugraphs.builders import members, npy, rezip

RAW = Path("npz/layout/xla/default")
OPCODES = [ID_OF_NAME[name] for name in ("add", "reduce", "custom-call", "copy", "transpose")]


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """Graphs whose configurable nodes are neither convolutions nor dots nor reshapes."""
    root = tmp_path_factory.mktemp("odd")
    for seed, split in enumerate(["train"] * 3 + ["valid", "test"]):
        graph = layout_graph(f"{split}_{seed}", seed)
        opcode = graph.node_opcode.copy()
        opcode[graph.node_config_ids] = np.resize(OPCODES, len(graph.node_config_ids))
        runtime = graph.config_runtime * (split != "test")
        graph = replace(graph, node_opcode=opcode, config_runtime=runtime)
        write_layout(root / "data" / RAW / split / f"{graph.name}.npz", graph)
    write_dataset(root / "data", TPUGRAPHS)
    return root


@pytest.mark.parametrize(("model", "hardware"), [("tgraph-plus", "cpu"), ("tgraph", "tpu")])
def test_a_configurable_node_of_any_operation(root, tmp_path, monkeypatch, model, hardware):
    monkeypatch.setenv("WANDB_MODE", "disabled")
    own = ["--pretraining", "9"] if model == "tgraph-plus" else TINY_FLAGS[-2:]
    tiny = [*TINY_FLAGS[2:-2], *own]
    for line in (
        "01_preprocess.py --jobs 1",
        "02_train.py --epochs 1 --fold 0",
        "03_infer.py --epochs 1 --fold 0",
        "04_ensemble.py --epochs 1 --folds 1",
    ):
        script, *flags = line.split()
        given = ["--data", str(root / "data"), "--outputs", str(tmp_path), "--model", model]
        given += ["--hardware", hardware]
        words = [script, "--collection", COLLECTION, *given, *tiny, *flags]
        monkeypatch.setattr(sys, "argv", words)
        runpy.run_path(str(REPOSITORY / script), run_name="__main__")
    (found,) = tmp_path.glob("*/submission.csv")
    assert list(read_entries(found)) == ["layout:xla:default:test_4"]


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
