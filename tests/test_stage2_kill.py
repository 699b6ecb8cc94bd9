"""Stage 2 killed and started again: the same weights, bit for bit, and the same history."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from lib.files import tensor_file
from lib.files.artifacts import read_json
from lib.tpugraphs.npz import write_layout
from tests import killing
from tests.builders import COLLECTION
from tests.killing import WEIGHTS, assert_same_training
from tests.synthetic import OWN, layout_graph, write_dataset

KILLS = 3  # at random moments
EPOCHS, GRAPHS = 6, 4  # of which a fold trains on half
STEPS = EPOCHS * GRAPHS // 2
FLAGS = ("--fold", 0, "--folds-total", 2, "--configurations", 6, "--epochs", EPOCHS)
WIDTHS = ("--channels", 16, "--heads", 2)
DROPOUT = ("--channels", 8, "--dropout", 0.5, "--configurations", 3, "--pretraining", 20)
# A model's results, its flags, and the steps at which one run of it is killed, again and again.
MODELS = {
    "tgraph-plus": (COLLECTION, DROPOUT, (5,)),
    "gst": (
        f"{COLLECTION}@gst",
        (*WIDTHS, "--segment-nodes", 8, "--segment-dropout", 0.5),
        (6, 3),
    ),
}


@pytest.fixture(scope="module")
def outputs(tmp_path_factory) -> Path:
    """Outputs with the two caches that the models read, and ``data`` beside them."""
    folder = tmp_path_factory.mktemp("caches")
    for index in range(GRAPHS):  # configurations that do much, of which a step sees little
        graph = layout_graph(f"g{index}", index, nodes=60, configurable=24, configurations=30)
        write_layout(folder / "data/npz/layout/xla/default/train" / f"{graph.name}.npz", graph)
    write_dataset(folder / "data", OWN)
    given = ("--data", folder / "data", "--outputs", folder / "outputs", "--jobs", 1)
    for flags in ((), ("--model", "gst")):
        assert killing.run("01_preprocess.py", *given, *flags)
    return folder / "outputs"


def train(caches: Path, outputs: Path, *flags: object, **kill: int) -> int | None:
    """Stage 2 in outputs of its own; how many changes of files it made, None if it was killed."""
    for cache in caches.glob("*/cache*"):
        link = outputs / cache.relative_to(caches)
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(cache)
    given = ("--data", caches.parent / "data", "--outputs", outputs)
    return killing.run("02_train.py", *FLAGS, *given, *flags, **kill)


@pytest.mark.parametrize("name", MODELS)
def test_killed_inside_a_fold(outputs, tmp_path, name):
    results, flags, kills = MODELS[name]
    flags = ("--model", name, *flags)
    assert train(outputs, tmp_path / "undisturbed", *flags)

    folder, epochs = tmp_path / "killed" / results / "fold_0", 0
    for step in kills:
        saving = ("--save-seconds", 0)
        assert not train(outputs, tmp_path / "killed", *flags, *saving, step=step)
        _, about = tensor_file.load(folder / "state.safetensors")  # whole, whenever the kill came
        assert epochs < about["progress"]["epochs"] < EPOCHS, "the kill was not inside"
        epochs = about["progress"]["epochs"]
        assert not (folder / "model.safetensors").exists()
    assert train(outputs, tmp_path / "killed", *flags)  # saving is another setting here
    record = read_json(folder.parent / "stages" / "train_0.json")
    assert record["earlier_seconds"] > 0, "it was not resumed"
    assert_same_training(tmp_path / "undisturbed" / results / "fold_0", folder)
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        ["history.parquet", "metrics.json", *WEIGHTS]
    ), "something is left over of the killed run"


def test_killed_at_random_moments(outputs, tmp_path):
    flags = (*DROPOUT, "--pretraining", 0, "--save-seconds", 0)
    changes = train(outputs, tmp_path / "whole", *flags)
    expected = tmp_path / "whole" / COLLECTION / "fold_0"

    random.seed(0)
    folder = tmp_path / "broken" / COLLECTION / "fold_0"
    killed, resumed = 0, 0
    while killed < KILLS:
        if all((folder / name).exists() for name in WEIGHTS):
            assert_same_training(expected, folder)
            shutil.rmtree(folder)
        resumed += (folder / "state.safetensors").exists()
        change = random.randrange(changes)
        killed += train(outputs, tmp_path / "broken", *flags, change=change) is None
    assert resumed, "no run was resumed: nothing is shown"
    assert train(outputs, tmp_path / "broken", *flags) is not None
    assert_same_training(expected, folder)
    assert not list(folder.glob("state*"))
