"""What is made again after which change of settings, data, code and results."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lib.files.artifacts import read_json, write_json
from lib.files.errors import DataError
from lib.runs import code
from lib.runs.code import SCRIPTS, STAGES, code_for
from lib.runs.identity import Run
from lib.settings import MODELS, settings_for
from lib.settings.resolved import dataset_for
from lib.systems import SYSTEMS
from tests.builders import COLLECTION, CPU_LAYOUTS
from tests.pretended import pretend
from tests.stages import REPOSITORY
from tests.synthetic import write_collection


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A copy of the code, a root of data, and what the stages of ``tgraph-plus`` left."""
    folder = tmp_path_factory.mktemp("identity")
    tree = folder / "tree"
    shutil.copytree(REPOSITORY / "lib", tree / "lib", ignore=shutil.ignore_patterns("__pycache__"))
    for script in REPOSITORY.glob("0*.py"):
        shutil.copy(script, tree)
    write_collection(folder / "data", COLLECTION, train=2, valid=1, test=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code, "ROOT", tree)
        forget()
        make(run_in(folder))
        yield folder
    forget()


def run_in(folder: Path, **given: object) -> Run:
    # (Nothing is pretrained, for the copies are not where the copy of the code is.)
    values = {"model": "tgraph-plus", "pretraining": 0, **given}
    settings = settings_for(COLLECTION, dataset_for(COLLECTION, folder / "data"), values)
    return Run(folder / "out", settings, folder / "data", folds=2)


def make(run: Run) -> Run:
    for stage, fold in run.parts():
        pretend(run, stage, fold)
    return run


def forget() -> None:
    """Begin as another process does: nothing is known of the tree."""
    code_for.cache_clear()
    code._files.cache_clear()


def due(run: Run) -> str:
    """Return the numbers of the stages that would work."""
    found = {stage for stage, fold in run.parts() if not run.up_to_date(stage, fold)}
    return "".join(script[1] for stage, script in SCRIPTS.items() if stage in found)


CODE = "\nADDED = 1\n"


@pytest.mark.parametrize(
    ("path", "added", "expected"),
    [
        ("lib/training/checkpoint.py", "", ""),
        ("lib/training/checkpoint.py", "\n# And at the end.\n", ""),
        ("lib/training/checkpoint.py", CODE, "234"),
        ("lib/training/loss.py", CODE, "234"),
        ("lib/models/tgraph_plus/training.py", CODE, "234"),
        ("lib/models/tgraph_plus/network.py", CODE, "234"),
        ("lib/models/tgraph/inputs.py", CODE, "234"),  # which tgraph-plus uses
        ("lib/models/prices/network.py", CODE, ""),  # of other models and devices
        ("lib/compiler/tpu.py", CODE, "234"),  # of physical columns, in inputs of tgraph
        ("lib/models/segments/gat.py", CODE, ""),
        ("lib/native/local.cpp", " // and at the end", ""),
        ("lib/native/local.cpp", CODE, "234"),
        ("lib/ranking/metrics.py", CODE, "4"),
        ("lib/ranking/folds.py", CODE, "234"),
        ("lib/preprocess/graphs.py", CODE, "1"),  # more only if the cache becomes another
        ("lib/cache/codec.py", CODE, "1234"),
        ("lib/scoring/scores.py", CODE, "34"),
        ("lib/files/artifacts.py", CODE, "4"),
        ("lib/report/page.css", CODE, "4"),
        ("lib/report/compare.py", CODE, ""),
        ("01_preprocess.py", CODE, "1"),
        ("02_train.py", CODE, "234"),
        ("03_infer.py", CODE, "34"),
        ("04_ensemble.py", CODE, "4"),
    ],
)
def test_what_an_edit_of_code_makes_again(made, path, added, expected):
    file = made / "tree" / path
    text = file.read_text()
    try:
        file.write_text(text + added)
        forget()
        assert due(run_in(made)) == expected
    finally:
        file.write_text(text)
        forget()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ""),
        ({"seed": 0}, ""),  # as it is by default
        ({"epochs": 3}, "234"),
        ({"save_seconds": 1.0}, ""),  # no result depends on it
        ({"score_training": False}, "34"),
        ({"blending": "mean"}, "4"),
    ],
)
def test_what_another_value_makes_again(made, given, expected):
    assert due(run_in(made, **given)) == expected


PLUS = "models/tgraph_plus/settings.py"
ENTRY = '            "tgraph": '
LINEAR = f'            "linear": "lib.models.tgraph.settings:TGraphSettings",\n{ENTRY}'


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("systems.py", ENTRY, LINEAR, ""),
        (PLUS, "float = setting(\n        0.3", "float = setting(\n        0.2", "234"),
        ("settings/base.py", "best_folds: int = setting(4,", "best_folds: int = setting(3,", "4"),
    ],
)
def test_what_an_edit_of_settings_makes_again(made, name, old, new, expected):
    """As make asks: settings are compared by value, and another model's entry is nobody's."""
    file = made / "tree" / "lib" / name
    text = file.read_text()
    assert old in text
    flags = ["--outputs", made / "out", "--data", made / "data", "--collection", COLLECTION]
    flags += ["--model=tgraph-plus", "--pretraining=0", "--folds=2"]
    line = [sys.executable, "-SEB", "-m", "lib.runs.make", "due", *map(str, flags)]
    try:
        file.write_text(text.replace(old, new, 1))
        done = subprocess.run(line, cwd=made / "tree", capture_output=True, text=True, check=True)
    finally:
        file.write_text(text)
    marks = ("manifest.json", "history.parquet", "scores/fold_0", "report.html")
    found = {str(number) for number, mark in enumerate(marks, 1) if mark in done.stdout}
    assert "".join(sorted(found)) == expected


def exchange(one: Path, other: Path) -> None:
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def damaged(run: Run, how: str) -> None:
    """Damage results."""
    one, other = (run.folder / f"fold_{k}" / "metrics.json" for k in (0, 1))
    submission = run.folder / "submission.csv"
    match how:
        case "a file is missing":
            other.with_name("model.safetensors").unlink()
        case "weights are cut off":
            path = other.with_name("last.safetensors")
            path.write_bytes(path.read_bytes()[:-1])
        case "two folds are exchanged":
            exchange(one, other)
        case "the cache is another":
            (run.cache / "manifest.json").write_text(json.dumps({"fingerprint": "x"}))
        case "scores are damaged":
            (run.folder / "scores" / "fold_0.parquet").write_bytes(b"x")
        case "the submission is empty":
            submission.write_bytes(b"")
        case "the submission was edited":
            submission.write_bytes(submission.read_bytes().swapcase())
        case "folds were touched":
            os.utime(one)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("a file is missing", "2"),
        ("weights are cut off", "2"),
        ("two folds are exchanged", "2"),
        ("the cache is another", "1234"),
        ("scores are damaged", "3"),
        ("the submission is empty", "4"),
        ("the submission was edited", "4"),
        ("folds were touched", ""),
    ],
)
def test_what_is_missing_damaged_or_edited_is_made_again(tmp_path, made, how, expected):
    run = make(run_in(shutil.copytree(made, tmp_path / "own")))
    damaged(run, how)
    assert due(run_in(tmp_path / "own")) == expected


EVERY_MODEL = pytest.mark.parametrize(
    ("collection", "model"),
    [
        (name, model)
        for name in (COLLECTION, "tile-xla", "programs-cpu")
        for model in MODELS[name.partition("-")[0]]
    ],
)


def settings_of(collection: str, model: str):
    hardware = MODELS[collection.partition("-")[0]][model].hardware_of[0]
    dataset = dataclasses.replace(CPU_LAYOUTS, hardware=hardware)
    return settings_for(collection, dataset, {"model": model})


@EVERY_MODEL
def test_a_model_is_made_from_its_own_system(collection, model):
    settings = settings_of(collection, model)
    found = {stage: code_for(stage, settings).keys() for stage in STAGES}
    for stage in ("preprocess", "infer", "ensemble"):
        module = getattr(SYSTEMS[settings.kind], stage).partition(":")[0]
        assert f"{module.replace('.', '/')}.py" in found[stage]
    every = set().union(*found.values())
    of_programs = any(path.startswith("lib/programs/") for path in every)
    assert of_programs == (settings.kind == "programs")
    of_experiments = any(path.startswith("lib/models/segments/") for path in every)
    assert of_experiments == settings.network.startswith("lib.models.segments.")
    tables = {f"lib/{name}" for name in ("systems.py", "programs/settings.py")}
    assert not {*tables, "lib/models/segments/settings.py"} & every


# What stages 3 and 4 read is of this fold, these settings, data and code, or one line says so.


def tgraph_in(folder: Path, **given: object) -> Run:
    settings = settings_for(COLLECTION, CPU_LAYOUTS, {"model": "tgraph", **given})
    run = Run(folder, settings, folds=2)
    run.cache.mkdir(parents=True)
    (run.cache / "manifest.json").write_text('{"fingerprint": "d"}')
    for stage, fold in run.parts()[1:-1]:
        pretend(run, stage, fold)
    return run


def scores(run: Run, fold: int) -> Path:
    return run.files("infer", fold)[0]


def metrics(run: Run, fold: int) -> Path:
    return run.folder / f"fold_{fold}" / "metrics.json"


@pytest.mark.parametrize(
    ("which", "change", "line"),
    [
        (metrics, "fold", r"fold_0/metrics\.json: fold: found 1, expected 0; train again"),
        (scores, "fold", r"scores/fold_0\.parquet: identity: found that of fold 1, "),
        (metrics, {"learning_rate": 0.5}, r"metrics\.json: learning_rate: found 0\.5, .* as --l"),
        (scores, {"learning_rate": 0.5}, r"identity: found that of other weights or settings"),
        (metrics, {"channels": 16}, r"metrics\.json: channels: found 16, expected 128 as --ch"),
        (metrics, "data", r"metrics\.json: data: found another cache's fingerprint"),
        (metrics, "identity", r"metrics\.json: identity: found that of other code"),
    ],
)
def test_what_is_of_another_run_is_refused(tmp_path, which, change, line):
    run = tgraph_in(tmp_path / "own")
    run.check_scored(1)
    if change == "fold":
        exchange(which(run, 0), which(run, 1))
    elif isinstance(change, dict):
        other = tgraph_in(tmp_path / "other", **change)
        which(run, 0).write_bytes(which(other, 0).read_bytes())
    else:
        write_json(metrics(run, 0), {**read_json(metrics(run, 0)), change: "x"})
    with pytest.raises(DataError, match=line) as refused:
        run.check_scored(0)
    assert "\n" not in str(refused.value)
