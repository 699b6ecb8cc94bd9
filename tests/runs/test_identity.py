"""What is made again after which change of settings, data and code."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lib.files.named import named
from lib.runs import ingredients, sources
from lib.runs.due import parts_of
from lib.runs.identity import Making
from lib.settings import COLLECTIONS, MODELS, settings_for
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
        patch.setattr(sources, "ROOT", tree)
        forget()
        making = making_in(folder)
        for stage, fold in parts_of(making):
            pretend(making, stage, fold)
        yield folder
    forget()


def making_in(folder: Path, **given: object) -> Making:
    # (Nothing is taught, for what is lies beside the copy's code, where there are no data.)
    values = {"model": "tgraph-plus", "lessons": 0, **given}
    settings = settings_for(COLLECTION, dataset_for(COLLECTION, folder / "data"), values)
    return Making(folder / "out", settings, folder / "data", folds=2)


def forget() -> None:
    """As another process begins: nothing is known of the tree."""
    ingredients.code_for.cache_clear()
    sources._files.cache_clear()


def due(making: Making) -> str:
    """The numbers of the stages that would work."""
    found = {s for s, fold in parts_of(making) if not making.as_it_was(s, fold)}
    return "".join(script[1] for stage, script in ingredients.SCRIPTS.items() if stage in found)


def edited(text: str, how: str) -> str:
    """A file's text after an edit."""
    if how == "code":
        return text + "\nADDED = 1\n"
    if how == "comment":
        return f"# Said otherwise.\n\n{text}\n# And at the end.\n"
    if how == "docstring":
        assert text.startswith('"""')
        return text.replace('"""', '"""Said otherwise. ', 1)
    if how == "C comment":
        return f"/* said\notherwise */ {text} // and at the end"
    return text


@pytest.mark.parametrize(
    ("path", "how", "expected"),
    [
        ("lib/train/loop.py", "touch", ""),
        ("lib/train/loop.py", "comment", ""),
        ("lib/train/loop.py", "docstring", ""),
        ("lib/train/loop.py", "code", "234"),
        ("lib/train/loss.py", "code", "234"),
        ("lib/train/copies.py", "code", "234"),
        ("lib/experiments/fold.py", "code", ""),  # of other models, as far as "" goes
        ("lib/programs/train.py", "code", ""),
        ("lib/inputs/copies.py", "code", "234"),
        ("lib/inputs/pruned.py", "code", "234"),
        ("lib/models/plus.py", "code", "234"),
        ("lib/models/plus.py", "comment", ""),
        ("lib/experiments/models/gat.py", "code", ""),
        ("lib/models/tgraph.py", "code", "234"),
        ("lib/programs/models/cdmpp.py", "code", ""),
        ("lib/native/local.cpp", "C comment", ""),
        ("lib/native/local.cpp", "code", "234"),
        ("lib/ranking/metrics.py", "code", "4"),
        ("lib/ranking/folds.py", "code", "234"),
        ("lib/compiler/cpu/features.py", "code", "1234"),
        ("lib/preprocess/graphs.py", "code", "1"),  # more only if the cache becomes another
        ("lib/programs/preprocess.py", "code", ""),
        ("lib/cache/codec.py", "code", "1234"),
        ("lib/scoring/scores.py", "code", "34"),
        ("lib/programs/infer.py", "code", ""),
        ("lib/files/artifacts.py", "code", "4"),
        ("lib/runs/stage.py", "code", "4"),
        ("lib/report/page.css", "code", "4"),
        ("lib/report/compare.py", "code", ""),
        ("lib/scoring/merge.py", "code", ""),
        ("01_preprocess.py", "code", "1"),
        ("02_train.py", "code", "234"),
        ("03_infer.py", "code", "34"),
        ("04_ensemble.py", "code", "4"),
    ],
)
def test_what_an_edit_of_code_makes_again(made, path, how, expected):
    file = made / "tree" / path
    text = file.read_text()
    try:
        file.write_text(edited(text, how))
        forget()
        assert due(making_in(made)) == expected
    finally:
        file.write_text(text)
        forget()


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ""),
        ({"seed": 0}, ""),  # as it is by default
        ({"epochs": 3}, "234"),
        ({"learning_rate": 0.1}, "234"),
        ({"save_seconds": 1.0}, ""),  # no result depends on it
        ({"permutations": 3}, "34"),
        ({"score_training": False}, "34"),
        ({"blending": "mean"}, "4"),
        ({"best_folds": 1}, "4"),
    ],
)
def test_what_another_value_makes_again(made, given, expected):
    assert due(making_in(made, **given)) == expected


LINEAR = '''

@dataclass(frozen=True)
class LinearSettings(LayoutSettings):
    """Another model."""

    network: ClassVar[str] = "lib.models.linear:LinearModel"

    model: str = setting("linear", "network: linear, pooled over nodes")
'''
DROPOUT = "context_dropout: float = setting(\n        0."
OTHER_DEFAULTS = [
    ("models.py", "", LINEAR, ""),
    (
        "../systems.py",
        '            "tgraph": ',
        '            "linear": "lib.settings.models:LayoutSettings",\n            "tgraph": ',
        "",
    ),
    ("../experiments/settings.py", "heads: int = setting(4,", "heads: int = setting(8,", ""),
    ("models.py", f"{DROPOUT}3", f"{DROPOUT}2", "234"),
    ("base.py", "best_folds: int = setting(4,", "best_folds: int = setting(3,", "4"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "old", "new", "expected"), OTHER_DEFAULTS)
def test_what_an_edit_of_settings_makes_again(made, name, old, new, expected):
    """As make asks: settings are compared by value, and another model's entry is nobody's."""
    file = made / "tree" / "lib" / "settings" / name
    text = file.read_text()
    changed = text.replace(old, new, 1) if old else text + new
    assert changed != text
    flags = ["--outputs", made / "out", "--data", made / "data", "--collection", COLLECTION]
    flags += ["--model=tgraph-plus", "--lessons=0", "--folds=2"]
    line = [sys.executable, "-SEB", "-m", "lib.runs.due", *map(str, flags)]
    try:
        file.write_text(changed)
        done = subprocess.run(line, cwd=made / "tree", capture_output=True, text=True, check=True)
    finally:
        file.write_text(text)
    marks = ("manifest.json", "history.parquet", "scores/fold_0", "report.html")
    found = {str(number) for number, mark in enumerate(marks, 1) if mark in done.stdout}
    assert "".join(sorted(found)) == expected


def test_raw_files_count_by_content(made, tmp_path):
    folder = shutil.copytree(made, tmp_path / "own")
    one = next((folder / "data").rglob("train_0*.npz"))
    one.touch()
    assert due(making_in(folder)) == ""
    assert not making_in(folder).as_it_was("preprocess", looks=False), "stage 1 is to look"
    one.write_bytes(one.read_bytes()[:-1] + b"x")
    assert due(making_in(folder)) == "1"
    assert making_in(folder).other_raw_files() == [f"train/{one.name}"]


def damaged(folder: Path, how: str) -> str:
    """Damage results; returns what is made again."""
    results = making_in(folder).folder
    one, other = (results / f"fold_{k}" / "metrics.json" for k in (0, 1))
    match how:
        case "a file is missing":
            (results / "fold_1" / "model.safetensors").unlink()
            return "2"
        case "two folds are exchanged":
            text = one.read_text()
            one.write_text(other.read_text())
            other.write_text(text)
            return "2"
        case "a digit is another":
            one.write_text(one.read_text().replace('"identity"', '"identity "', 1))
            return "2"
        case "the cache is another":
            path = making_in(folder).cache / "manifest.json"
            path.write_text(json.dumps({"fingerprint": "x"}))
            return "1234"
    (results / "scores" / "fold_0.parquet").write_bytes(b"x")
    return "3"


@pytest.mark.parametrize(
    "how",
    [
        "a file is missing",
        "two folds are exchanged",
        "a digit is another",
        "the cache is another",
        "scores are damaged",
    ],
)
def test_what_is_missing_or_damaged_is_made_again(made, tmp_path, how):
    folder = shutil.copytree(made, tmp_path / "own")
    expected = damaged(folder, how)
    assert due(making_in(folder)) == expected


EVERY_MODEL = pytest.mark.parametrize(
    ("collection", "model"),
    [(name, model) for name, kind in COLLECTIONS.items() for model in MODELS[kind]],
)


@EVERY_MODEL
def test_what_a_model_runs_counts(collection, model):
    settings = settings_for(collection, CPU_LAYOUTS, {"model": model})
    run = [named(settings.network), *named(settings.network).__mro__]
    run += [named(settings.fold), *vars(named(settings.input)).values()]
    modules = {getattr(one, "__module__", "") for one in run}
    wanted = {f"{name.replace('.', '/')}.py" for name in modules if name.startswith("lib.")}
    fold = {f"{settings.fold.partition(':')[0].replace('.', '/')}.py"}
    assert len(wanted) >= 3 and fold <= wanted
    for stage in ("train", "infer"):
        own = wanted if stage == "train" else wanted - fold
        assert own <= ingredients.code_for(stage, settings).keys()


@EVERY_MODEL
def test_a_model_is_made_from_its_own_system(collection, model):
    settings = settings_for(collection, CPU_LAYOUTS, {"model": model})
    code = {stage: ingredients.code_for(stage, settings).keys() for stage in ingredients.STAGES}
    for stage in ("preprocess", "infer", "ensemble"):
        module = getattr(SYSTEMS[settings.kind], stage).partition(":")[0]
        assert f"{module.replace('.', '/')}.py" in code[stage]
    every = set().union(*code.values())
    of_programs = any(path.startswith("lib/programs/") for path in every)
    assert of_programs == (settings.kind == "programs")
    of_experiments = any(path.startswith("lib/experiments/") for path in every)
    assert of_experiments == settings.network.startswith("lib.experiments.")
    assert not {"lib/systems.py", "lib/programs/settings.py", "lib/experiments/settings.py"} & every
