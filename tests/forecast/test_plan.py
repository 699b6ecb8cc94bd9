"""``make plan``, through its real command line, on small data and without any."""

from __future__ import annotations

import numpy as np
import pytest

from lib.forecast.__main__ import main
from lib.forecast.collection import graphs_of, sizes_in
from lib.forecast.samples import PROGRAM, side_by_side
from lib.settings import root_of, settings_for
from lib.tpugraphs.npz import read_layout, write_layout
from lib.tpugraphs.sizes import GraphSize
from tests.builders import COLLECTION
from tests.commands import call
from tests.kernels import tile_kernel, write_kernels
from tests.synthetic import write_collection
from tests.tpu import KERNELS

STAGES = ("1 preprocess", "2 train", "3 infer", "4 ensemble")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    write_collection(folder, COLLECTION, train=3, valid=1, test=1)
    tiles = [tile_kernel(f"k{i}", i) for i in range(4)]
    for split in ("train", "valid", "test"):
        write_kernels(folder / "npz" / "tile" / "xla" / split, tiles[:2], split != "test")
    return folder


@pytest.mark.parametrize("model", ["tgraph", "tgraph-plus", "gst"])
def test_a_plan_of_ones_own_layouts(data, model):
    flags = ["--data", data, "--collection", COLLECTION, "--model", model, "--channels", 16]
    said = call(main, *flags, "--folds", 2, "--jobs", 1, "--epochs", 3)
    assert said.returncode == 0, said.stderr
    rows = said.stdout.splitlines()
    assert [row.partition("   ")[0].strip() for row in rows[1:5]] == list(STAGES)
    assert rows[-1].startswith(f"plan: {model} on 5 graphs of {data}: ")
    assert rows[-1].endswith("2 folds of 3 epochs; measured on 3 samples")


def test_a_plan_of_kernels(data):
    said = call(main, "--data", data, "--collection", "tile-xla", "--channels", 16, "--jobs", 1)
    assert said.returncode == 0, said.stderr
    assert "plan: tile on 6 graphs of" in said.stdout


def test_what_cannot_be_planned_is_one_line(tmp_path):
    said = call(main, "--collection", COLLECTION, "--data", tmp_path)
    assert said.returncode == 2
    assert said.stderr.count("\n") == 1


def test_sizes_are_those_of_the_files(data):
    root = root_of(COLLECTION, data)
    found = graphs_of(settings_for(COLLECTION, root.dataset, {}), root)
    assert [one.split for one in found] == ["train"] * 3 + ["valid", "test"]
    assert {(one.nodes, one.configurable, one.configurations) for one in found} == {(30, 6, 20)}
    assert sizes_in(PROGRAM, "train") == [GraphSize("train", 3163, 62, 112)]
    for path in KERNELS:
        assert sizes_in(path, "test")[0].configurable == 0


def test_copies_side_by_side_are_a_program(tmp_path):
    one = read_layout(PROGRAM)
    made = side_by_side(one, 3, 50)
    write_layout(tmp_path / "a.npz", made)
    assert len(read_layout(tmp_path / "a.npz").node_opcode) == 3 * len(one.node_opcode)
    for copy in range(3):
        nodes = slice(copy * 3163, (copy + 1) * 3163)
        assert np.array_equal(made.node_opcode[nodes], one.node_opcode)
        own = made.node_config_feat[:, copy * 62 : (copy + 1) * 62].reshape(50, -1)
        known = {row.tobytes() for row in one.node_config_feat.reshape(112, -1)}
        assert {row.tobytes() for row in own} <= known
