"""``make plan``, through its real command line, on small data and without any."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import asdict

import numpy as np
import pytest

from lib.settings import described, root_of, settings_for
from lib.study.plan import __main__ as forecast_main
from lib.study.plan.__main__ import main
from lib.study.plan.collection import graphs_of, sizes_in
from lib.study.plan.costs import forecast
from lib.study.plan.files import measure_files
from lib.study.plan.measure import STAGES as MEASURES
from lib.study.plan.measure import Unit
from lib.study.plan.samples import (
    KERNEL,
    MOST_KERNELS,
    PROGRAM,
    copy_twice,
    kernel_like,
    sample_files,
    side_by_side,
)
from lib.tpugraphs.dataset import TPUGRAPHS
from lib.tpugraphs.npz import read_layout, read_tile, write_layout
from lib.tpugraphs.sizes import GraphSize, official_graphs
from lib.train.schedule import passes_of
from tests.builders import COLLECTION
from tests.commands import call
from tests.interpreter import python
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
def test_layouts_are_measured_and_reckoned_with(data, model, tmp_path):
    """In this process, which is quicker; a plan of kernels has processes of its own, below."""
    given = {"model": model, "channels": 16, "folds_total": 2, "keep_together": "graph"}
    given |= {"lessons": 20} if model == "tgraph-plus" else {}
    root = root_of(COLLECTION, data)
    settings = settings_for(COLLECTION, root.dataset, given)
    graphs = graphs_of(settings, root)
    groups = sample_files(settings, root, graphs, tmp_path)
    assert len(groups) == 3
    raw = copy_twice(groups[0], tmp_path / "raw")
    task = {"settings": described(settings), "dataset": asdict(root.dataset)}
    task |= {"files": [str(path) for path in raw], "folder": str(tmp_path)}
    found = measure_files(task)
    for measure in MEASURES.values():
        found |= measure(task, settings)
    unit = Unit(**found)
    assert (unit.configurable, unit.configurations) == (6, 20)
    assert unit.kept <= 30
    for value in (unit.preprocess_seconds, unit.step_seconds, unit.score_seconds):
        assert 0 < value < 60
    said = forecast(graphs, [unit], settings, folds=2, jobs=1)
    assert list(said) == [row.partition(" ")[2] for row in STAGES]
    assert said["train"].each > passes_of(settings, 2) * unit.step_seconds


def test_a_plan_of_kernels(data, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(python()))  # its processes start at once
    tried = []  # what goes through the bar that shows that it is alive
    bar = forecast_main.tqdm
    monkeypatch.setattr(forecast_main, "tqdm", lambda x, **how: tried.append(x) or bar(x, **how))
    said = call(main, "--data", data, "--collection", "tile-xla", "--channels", 16, "--jobs", 1)
    assert said.returncode == 0, said.stderr
    assert [len(one) for one in tried] == [1]
    rows = said.stdout.splitlines()
    assert [row.partition("   ")[0].strip() for row in rows[2:6]] == list(STAGES)
    assert rows[-1].startswith(f"plan: tile on 6 graphs of {data}: ")
    assert rows[-1].endswith("2 folds of 60 epochs; measured on 1 sample")


@pytest.mark.parametrize(
    ("given", "of"),
    [
        ((), "data/xla-cpu; trying "),
        (("--data", "official"), "official layout-xla-random"),
        (("--data", None), "5 graphs of "),
    ],
)
def test_the_root_is_that_of_the_stages(data, monkeypatch, given, of):
    """It is named, before anything is tried out, which takes a minute."""
    monkeypatch.setattr(forecast_main, "calibrate", lambda *_: 1 / 0)
    given = [data if one is None else one for one in given]
    collection = COLLECTION if data in given else "layout-xla-random"
    out = io.StringIO()
    with contextlib.redirect_stdout(out), pytest.raises(ZeroDivisionError):
        main(["--collection", collection, *map(str, given)])
    assert of in out.getvalue()
    assert out.getvalue().startswith("plan: tgraph")


def test_too_few_graphs_are_refused_as_stage_2_refuses_them(tmp_path, monkeypatch):
    monkeypatch.setattr(forecast_main, "calibrate", lambda *_: 1 / 0)
    write_collection(tmp_path, COLLECTION, train=1, valid=0, test=1)
    said = call(main, "--collection", COLLECTION, "--data", tmp_path)
    assert said.returncode == 2
    assert "there must be 2 " in said.stderr
    assert said.stdout == ""


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
        for node in range(62):
            known = {row.tobytes() for row in one.node_config_feat[:, node]}
            own = made.node_config_feat[:, copy * 62 + node]
            assert {row.tobytes() for row in own} <= known
    assert len(np.unique(made.node_config_feat.reshape(50, -1), axis=0)) == 50


def test_without_kernels_some_as_large_as_official_ones_are_made(tmp_path):
    graphs = [one.limited(300) for one in official_graphs("tile-xla", 0.05)]
    settings = settings_for("tile-xla", TPUGRAPHS, {})
    (files,) = sample_files(settings, None, graphs, tmp_path)
    assert MOST_KERNELS / 2 < len(files) <= MOST_KERNELS
    counts = [len(read_tile(path).config_runtime) for path in files]
    labelled = [one.configurations for one in graphs if one.split != "test"]
    assert np.mean(counts) == pytest.approx(np.mean(labelled), rel=0.1)


def test_a_kernel_has_the_size_that_was_asked_for():
    one = read_tile(KERNEL)
    made = kernel_like(one, GraphSize("train", 95, 0, 700), seed=1)
    assert (len(made.node_opcode), len(made.config_runtime)) == (93, 700)
    assert len(np.unique(made.config_feat, axis=0)) == 700  # stage 1 merges none
    assert made.labelled
