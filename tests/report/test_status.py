"""`make status`: what is built, what is stale and why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lib.cache.reader import Cache
from lib.files import tensor_file
from lib.report.stale import differences
from tests.report.conftest import Finished
from tests.stages import REPOSITORY, TINY_FLAGS, stages_in


def state(said: str) -> dict[str, list[str]]:
    """Each stage's state, and the reasons below it."""
    found: dict[str, list[str]] = {}
    for line in said.splitlines():
        name, _, rest = line.partition(" ")
        if name in ("preprocess", "train", "infer", "ensemble"):
            stage = name
            found[stage] = [rest.split("ago")[-1].split(" -  ")[-1].strip()]
        elif found and line.startswith(" " * 12):
            found[stage].append(line.strip())
        elif found and not line:
            break
    return found


def test_up_to_date(finished):
    said = finished.make("status")
    assert {stage: lines for stage, lines in state(said).items()} == {
        stage: ["up to date"] for stage in ("preprocess", "train", "infer", "ensemble")
    }
    assert "2 of 2" in said
    assert "experiment trial" in said
    assert "Kendall's τ by stage 4" in said
    assert "blended" in said
    assert "\x1b[" not in said


@pytest.mark.parametrize(
    ("variables", "first", "why"),
    [
        ({"EPOCHS": 7}, "train", "changed: --epochs 3 → 7"),
        ({"TTA": 4}, "infer", "changed: --permutations 2 → 4"),
        ({"SEED": 3}, "train", "changed: --seed 0 → 3"),
        ({"FOLDS": 1}, "ensemble", "changed: FOLDS 2 → 1"),
    ],
)
def test_a_changed_variable_is_named(finished, variables, first, why):
    stages = ["preprocess", "train", "infer", "ensemble"]
    found = state(finished.make("status", **variables))
    start = stages.index(first)
    assert all(found[stage] == ["up to date"] for stage in stages[:start])
    assert found[first][0].startswith("stale")
    assert why in found[first]
    for stage, before in zip(stages[start + 1 :], stages[start:], strict=False):
        assert f"after {before}, which runs again" in found[stage]


@pytest.fixture
def copy(finished, tmp_path) -> Finished:
    """Outputs of our own."""
    outputs = tmp_path / "outputs"
    shutil.copytree(finished.outputs, outputs, ignore=shutil.ignore_patterns("wandb"))
    return Finished(finished.data, outputs, outputs / finished.folder.name, finished.said)


def test_asking_changes_nothing(copy):
    before = sorted((p, p.stat().st_mtime_ns) for p in copy.outputs.rglob("*"))
    copy.make("status", EPOCHS=9)
    assert sorted((p, p.stat().st_mtime_ns) for p in copy.outputs.rglob("*")) == before


def test_changed_raw_files_are_named(finished):
    new = next(finished.data.rglob("train_0*.npz")).with_name("new.npz")
    try:
        new.touch()
        found = state(finished.make("status"))
    finally:
        new.unlink()
    told = "raw files were added, removed or changed: train/new.npz"
    assert found["preprocess"] == ["stale", told]
    assert found["train"] == ["stale", "after preprocess, which runs again"]


@pytest.mark.parametrize("end", ["/", "/./", "//"])
def test_a_path_with_a_slash_at_its_end(copy, end):
    outputs = f"{copy.outputs}{end}"
    found = state(copy.make("status", OUTPUTS=outputs, EPOCHS=7))
    assert "changed: --epochs 3 → 7" in " ".join(found["train"])
    assert stages_in(copy.make("-n", "all", OUTPUTS=outputs, EPOCHS=7))
    assert not stages_in(copy.make("-n", "all", OUTPUTS=outputs))


def test_what_is_missing(copy):
    (copy.folder / "scores" / "fold_1.parquet").unlink()
    (copy.folder / "report.html").unlink()
    (copy.folder / "fold_0" / "model.safetensors").unlink()
    found = state(copy.make("status"))
    assert found["train"] == ["stale: 1 of 2", "model.safetensors is missing"]
    assert found["infer"] == ["stale: 1 of 2", "after train, which runs again"]
    after = "after infer, which runs again"
    assert found["ensemble"] == ["stale", "report.html is missing", after]
    shutil.rmtree(copy.folder / "scores")
    assert state(copy.make("status"))["infer"] == ["not built"]


def test_results_without_a_record(copy):
    (copy.folder / "stages" / "train_0.json").unlink()
    assert state(copy.make("status"))["train"] == ["up to date"], "they say it themselves"
    told = "it is another version's, damaged, or of a run that left no record"
    assert told in state(copy.make("status", EPOCHS=7))["train"]


def test_a_training_under_way(copy):
    (copy.folder / "fold_1" / "metrics.json").unlink()
    about = {"identity": "x", "progress": {"epochs": 2}}
    tensors = {"a": torch.zeros(2)}
    tensor_file.save(copy.folder / "fold_1" / "state.safetensors", tensors, about)
    said = copy.make("status")
    assert "fold 1: 2 epochs trained, saved" in said
    assert state(said)["train"][0] == "1 of 2 not built"


def test_nothing_built(finished, tmp_path):
    said = finished.make("status", OUTPUTS=tmp_path / "none")
    assert "nothing is built yet; make all COLLECTION=" in said
    assert not (tmp_path / "none").exists()


def test_make_report_writes_it_anew(copy):
    report = copy.folder / "report.html"
    report.unlink()
    assert "wrote" in copy.make("report")
    assert "</html>" in report.read_text()
    assert Cache(copy.cache).fingerprint in report.read_text()


def raw_file(copy: Finished) -> Path:
    return next(copy.data.rglob("train_0*.npz"))


def change(copy: Finished, what: str) -> None:
    """Change something that results depend on."""
    match what:
        case "a score is missing":
            (copy.folder / "scores" / "fold_1.parquet").unlink()
        case "the report is missing":
            (copy.folder / "report.html").unlink()
        case "results are of 1970":
            os.utime(copy.folder / "fold_0" / "metrics.json", (1, 1))
        case "a raw file was touched":
            raw_file(copy).touch()
        case "a raw file is another of its size":
            raw_file(copy).write_bytes(raw_file(copy).read_bytes()[:-1] + b"x")


@pytest.mark.parametrize(
    ("what", "variables", "due"),
    [
        ("nothing", {}, ""),
        ("nothing", {"EPOCHS": 7}, "234"),
        ("nothing", {"ARGS": " ".join(TINY_FLAGS[4:] + TINY_FLAGS[2:4])}, ""),
        ("nothing", {"KEEP_GOING": 1}, "1234"),
        ("a score is missing", {}, "34"),
        ("the report is missing", {}, "4"),
        ("results are of 1970", {}, ""),
        ("a raw file was touched", {}, ""),
        ("a raw file is another of its size", {}, "1234"),
    ],
)
def test_what_is_called_stale_is_what_works_again(copy, what, variables, due):
    """A stage that make starts only looks, where times alone are others."""
    raw = raw_file(copy)
    content, about = raw.read_bytes(), raw.stat()
    try:
        change(copy, what)
        planned = stages_in(copy.make("-n", "all", **variables))
        told = state(copy.make("status", **variables))
    finally:  # every test's
        raw.write_bytes(content)
        os.utime(raw, ns=(about.st_atime_ns, about.st_mtime_ns))
    names = dict(zip(told, "1234", strict=True))
    assert "".join(names[stage] for stage in told if told[stage] != ["up to date"]) == due
    looked = {"results are of 1970": "234", "a raw file was touched": "1234"}
    assert "".join(script[1] for script in planned) == looked.get(what, due)


def test_other_data_other_code_and_other_defaults_are_named():
    before = {"data": "0" * 64, "settings": {"weights": "best", "folds": [0, 1]}, "measured": "x"}
    now = {"data": "1" * 64, "settings": {"weights": "last", "folds": [0]}, "trained": "x"}
    old = {f"lib/{name}.py": "1" for name in "abcdef"}
    assert differences({**before, "code": old}, {**now, "code": {"lib/a.py": "1"}}) == [
        "code: lib/b.py, lib/c.py, lib/d.py, lib/e.py and 1 more",
        "made from other data: 000000 → 111111",
        "made with other measured",
        "changed: FOLDS 2 → 1, --weights best → last",
    ]


def test_results_without_raw_data_are_looked_at(copy, tmp_path):
    found = state(copy.make("status", DATA=tmp_path / "none"))
    assert found["preprocess"][0] == "stale"
    assert "raw files were added, removed or changed: all" in found["preprocess"]


def test_libraries_that_take_seconds_are_not_imported():
    asked = "import sys, lib.report.status; print({'scipy', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", asked], cwd=REPOSITORY, capture_output=True)
    assert done.stdout == b"set()\n"
