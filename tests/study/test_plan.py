"""``make plan``: from a few measured graphs to all of them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace

import numpy as np
import pytest

from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.models.common.settings import AUTO
from lib.settings import root_of, settings_for
from lib.study import measure as measuring
from lib.study import plan
from lib.study.measure import (
    PROGRAM,
    STAGES,
    cached_sizes,
    measure,
    sample,
    write_all,
    write_program,
)
from lib.study.plan import DISK, Sides, forecast, graphs_in
from lib.tpugraphs.dataset import TPUGRAPHS
from lib.tpugraphs.npz import read_layout
from lib.tpugraphs.sizes import GraphSize, official_graphs
from lib.training.schedule import MOST_PASSES, STEPS
from tests.builders import COLLECTION, CPU_LAYOUTS
from tests.commands import call
from tests.kernels import tile_kernel, write_kernels
from tests.synthetic import write_collection
from tests.tpu import KERNELS

SETTINGS = settings_for("layout-xla-default", TPUGRAPHS, {"model": "tgraph"})
# Seconds and bytes of a machine whose costs are known, of what each grows with.
RATES = {
    "preprocess": dict(seconds=1e-7, disk=2.0, memory=1e8),
    "train": {
        **dict(start=5.0, ready=1e-3, step=4e-6, validation=1e-6, disk=1000),
        **dict(memory=2e8, more_memory=10.0, device=4.0),
    },
    "infer": dict(start=2.0, seconds=5e-6, memory=3e8, more_memory=7.0),
}
LABELLED = [
    *(GraphSize("train", 5000, k, c) for k, c in ((100, 4000), (200, 900), (400, 20_000))),
    GraphSize("valid", 5000, 50, 40),
]
SIDES = Sides(LABELLED, [GraphSize("test", 5000, 250, 6000)], [])


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plan")
    write_collection(folder, COLLECTION, train=3, valid=1, test=1)
    tiles = [tile_kernel(f"k{i}", i) for i in range(4)]
    for split, own in (("train", tiles[:2]), ("valid", tiles[2:3]), ("test", tiles[3:])):
        write_kernels(folder / "npz" / "tile" / "xla" / split, own, split != "test")
    return folder


@pytest.fixture
def here(monkeypatch):
    """Stages run in this process, which is quicker."""
    monkeypatch.setattr(measuring, "ProcessPoolExecutor", lambda one, how: ThreadPoolExecutor(one))
    monkeypatch.setattr(measuring, "LEAST_SECONDS", 0.0)


def test_every_stage_of_a_machine_whose_costs_are_known():
    said = forecast(SIDES, RATES, SETTINGS, folds=4, jobs=2)
    cells = 100 * 5000 + 200 * 1900 + 400 * 21_000 + 50 * 1040 + 250 * 7000
    assert said["preprocess"].a_fold == pytest.approx(1e-7 * cells)
    assert said["preprocess"].seconds == pytest.approx(1e-7 * cells / 2)
    assert said["preprocess"].disk == pytest.approx(2 * cells)
    assert said["preprocess"].memory == 1e8
    held = 1 / SETTINGS.folds_total
    steps = 64 * (100 + 200 + 400) + 40 * 50
    some, every = (
        held * (100 * min(4000, most) + 200 * min(900, most) + 400 * min(20_000, most) + 50 * 40)
        for most in (SETTINGS.validation_configurations, 10**9)
    )
    fold = 5 + 1e-3 * 750 + 1e-6 * every
    fold += SETTINGS.epochs * (4e-6 * (1 - held) * steps + 1e-6 * some / SETTINGS.validate_every)
    assert said["train"].a_fold == pytest.approx(fold)
    assert said["train"].seconds == pytest.approx(2 * fold)  # four folds, two at a time
    assert said["train"].disk == 4 * 1000
    assert said["train"].memory == pytest.approx(2e8 + 10 * 64 * 400 + 2 * cells)
    once = forecast(SIDES, RATES, replace(SETTINGS, epochs=1), folds=4, jobs=2)["train"]
    assert once.memory < said["train"].memory  # fewer rows of the cache are read
    assert said["train"].device == pytest.approx(4 * 64 * 400)
    assert said["infer"].a_fold == pytest.approx(2 + 5e-6 * (250 * 6000 + every))


def test_what_a_fold_scores_is_what_it_writes():
    held, rows = 1 / SETTINGS.folds_total, 4000 + 900 + 20_000 + 40
    for learned, share in ((False, held), (True, 1.0)):
        settings = replace(SETTINGS, score_training=learned)
        said = forecast(SIDES, RATES, settings, folds=1, jobs=1)["infer"]
        assert said.disk == pytest.approx(10 * DISK * (6000 + share * rows))


def test_whole_graphs_take_what_their_nodes_do():
    whole = settings_for("layout-xla-default", TPUGRAPHS, {"model": "gst"})
    said = forecast(SIDES, RATES, whole, folds=1, jobs=1)["train"]
    assert said.device == pytest.approx(4 * whole.configurations * 5000)


def test_of_ten_times_the_graphs_there_are_fewer_passes():
    settings = settings_for("layout-xla-default", CPU_LAYOUTS, {"also": "none"})
    rates = RATES | {"train": RATES["train"] | {"ready": 0.0}}

    def fold(count: int, epochs: object) -> float:
        sides, own = SIDES._replace(labelled=LABELLED[:1] * count), replace(settings, epochs=epochs)
        return forecast(sides, rates, own, folds=1, jobs=1)["train"].a_fold

    few = fold(STEPS // MOST_PASSES, AUTO)
    assert few < fold(10 * STEPS // MOST_PASSES, AUTO) < 3 * few
    assert fold(10 * STEPS // MOST_PASSES, MOST_PASSES) > 9 * few


def test_other_collections_are_preprocessed_and_learned_from():
    alone = forecast(SIDES, RATES, SETTINGS, folds=4, jobs=2)
    beside = [GraphSize("train", 5000, 150, 3000)]
    said = forecast(SIDES._replace(beside=beside), RATES, SETTINGS, folds=4, jobs=2)
    assert said["preprocess"].a_fold - alone["preprocess"].a_fold == pytest.approx(150e-7 * 4000)
    step = (1 - 1 / SETTINGS.folds_total) * 4e-6 * 150 * 64
    more = said["train"].a_fold - alone["train"].a_fold
    assert more == pytest.approx(SETTINGS.epochs * step + 1e-3 * 150)
    assert [said[name] for name in ("infer", "ensemble")] == [*alone.values()][2:]


@pytest.mark.parametrize("model", ["tgraph", "tgraph-plus", "gst", "tile"])
def test_stages_are_measured(data, here, model):
    collection = "tile-xla" if model == "tile" else COLLECTION
    given = {"model": model, "channels": 16, "folds_total": 2, "keep_together": "graph"}
    given |= {"pretraining": 20} if model == "tgraph-plus" else {}
    root = root_of(collection, data)
    settings = settings_for(collection, root.dataset, given)
    rates = measure(settings, graphs_in(root, settings))
    assert list(rates) == list(STAGES)
    for stage, name in (("preprocess", "seconds"), ("train", "step"), ("infer", "seconds")):
        assert 0 < rates[stage][name] < 1
    assert 0 < rates["train"]["ready"] < 1 and 0 < rates["train"]["validation"] < 1


def test_the_table_has_a_row_a_stage(data, here):
    flags = "--data", data, "--collection", "tile-xla", "--channels", 16, "--jobs", 1
    said = call(plan.main, *flags)
    assert said.returncode == 0, said.stderr
    rows = said.stdout.splitlines()
    names = [row.partition("   ")[0] for row in rows[2:6]]
    assert names == ["1 preprocess", "2 train", "3 infer", "4 ensemble"]
    assert rows[-1].startswith(f"plan: tile on 4 graphs of {data}: ")
    assert rows[-1].endswith("3 folds of 60 epochs")


@pytest.mark.parametrize(
    ("given", "of"),
    [
        ((), "data/xla-cpu; trying "),
        (("--data", "official"), "official layout-xla-random"),
        (("--data", None), "5 graphs of "),
    ],
)
def test_the_root_is_that_of_the_stages(data, monkeypatch, capsys, given, of):
    """It is named, before anything is tried out, which takes a minute."""
    monkeypatch.setattr(plan, "measure", lambda *_: 1 / 0)
    given = [data if one is None else one for one in given]
    collection = COLLECTION if data in given else "layout-xla-random"
    with pytest.raises(ZeroDivisionError):
        plan.main(["--collection", collection, *map(str, given)])
    assert of in capsys.readouterr().out


def test_too_few_graphs_are_refused_as_stage_2_refuses_them(tmp_path, here):
    write_collection(tmp_path, COLLECTION, train=1, valid=0, test=1)
    said = call(plan.main, "--collection", COLLECTION, "--data", tmp_path)
    assert said.returncode == 2
    assert "there must be 2 " in said.stderr


def test_what_cannot_be_planned_is_one_line(tmp_path):
    said = call(plan.main, "--collection", COLLECTION, "--data", tmp_path)
    assert said.returncode == 2
    assert said.stderr.count("\n") == 1


def test_stages_have_processes_of_their_own(data, monkeypatch):
    monkeypatch.setattr(measuring, "STAGES", {"preprocess": STAGES["preprocess"]})
    root = root_of("tile-xla", data)
    settings = settings_for("tile-xla", root.dataset, {})
    rates = measure(settings, graphs_in(root, settings))["preprocess"]
    assert min(rates["seconds"], rates["disk"]) > 0


def test_a_stage_that_is_killed_is_one_line(monkeypatch, data, here):
    monkeypatch.setattr(measuring, "STAGES", {"train": killed})
    root = root_of(COLLECTION, data)
    settings = settings_for(COLLECTION, root.dataset, {})
    with pytest.raises(UserError, match="train: killed, most likely for want of memory"):
        measure(settings, graphs_in(root, settings))


def killed(*given):
    raise BrokenProcessPool


def test_sizes_are_those_of_the_files(data):
    root = root_of(COLLECTION, data)
    found = graphs_in(root, settings_for(COLLECTION, root.dataset, {}))
    sizes = [one for own in found.values() for one in own]
    assert [one.split for one in sizes] == ["train"] * 3 + ["valid", "test"]
    assert {(one.nodes, one.configurable, one.configurations) for one in sizes} == {(30, 6, 20)}
    assert plan.sizes_in(PROGRAM, "train") == [GraphSize("train", 3163, 62, 112)]
    for path in KERNELS:
        assert plan.sizes_in(path, "test")[0].configurable == 0


def test_a_sample_has_small_and_large_graphs_alike(tmp_path):
    known = {tmp_path / f"{n}.npz": [GraphSize("train", 10, 5, 10 * n)] for n in range(1, 81)}
    known[tmp_path / "test.npz"] = [GraphSize("test", 10, 5, 400)]
    chosen = sample(SETTINGS, known)
    assert len(chosen) == 8
    counts = [known[path][0].configurations for path in chosen]
    assert np.mean(counts) == pytest.approx(405, rel=0.02)


def test_copies_side_by_side_are_a_program(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "CONFIGURATIONS", 50)
    one = read_layout(PROGRAM)
    write_program(tmp_path / "a.npz", 3)
    made = read_layout(tmp_path / "a.npz")
    assert len(made.node_opcode) == 3 * len(one.node_opcode)
    for copy in range(3):
        nodes = slice(copy * 3163, (copy + 1) * 3163)
        assert np.array_equal(made.node_opcode[nodes], one.node_opcode)
        for node in range(62):
            known = {row.tobytes() for row in one.node_config_feat[:, node]}
            own = made.node_config_feat[:, copy * 62 + node]
            assert {row.tobytes() for row in own} <= known
    assert len(np.unique(made.node_config_feat.reshape(50, -1), axis=0)) == 50


def test_official_kernels_have_as_many_tiles(tmp_path):
    settings = settings_for("tile-xla", TPUGRAPHS, {"folds_total": 2, "keep_together": "graph"})
    files = write_all(settings, tmp_path)
    STAGES["preprocess"](settings, files, tmp_path / "cache")
    sizes = cached_sizes(Cache(tmp_path / "cache")).values()
    wanted = [one.configurations for one in official_graphs("tile-xla")]
    found = [one.configurations for one in sizes]
    assert np.mean(found) == pytest.approx(np.mean(wanted), rel=0.2)
