"""`make status`: what is built, what is stale and why."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from lib.cache.reader import Cache
from lib.files import checkpoint
from lib.files.artifacts import read_json, write_json
from tests.builders import COLLECTION, TGRAPH
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
        ({"SEED": 3}, "train", "changed: --seed (default) → 3"),
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
        assert f"after {before}, which runs again or is newer" in found[stage]


@pytest.fixture
def copy(finished, tmp_path) -> Finished:
    """Outputs of our own, with the times of the originals."""
    outputs = tmp_path / "outputs"
    shutil.copytree(finished.outputs, outputs, ignore=shutil.ignore_patterns("wandb"))
    text = str(outputs), str(finished.outputs)
    for stamp in (outputs / ".make").iterdir():
        times = stamp.stat()
        stamp.write_text(stamp.read_text().replace(text[1], text[0]))
        os.utime(stamp, ns=(times.st_atime_ns, times.st_mtime_ns))
    return Finished(finished.data, outputs, outputs / TGRAPH, finished.said)


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
    assert found["preprocess"] == ["stale", "raw files were added, removed or changed"]
    assert found["train"] == ["stale", "after preprocess, which runs again or is newer"]


def test_a_path_with_a_slash_at_its_end(copy):
    outputs = f"{copy.outputs}/./"
    found = state(copy.make("status", OUTPUTS=outputs, EPOCHS=7))
    assert "changed: --epochs 3 → 7" in " ".join(found["train"])


def test_what_is_missing_and_what_is_newer(copy):
    (copy.folder / "scores" / "fold_1.parquet").unlink()
    soon = time.time() + 5
    os.utime(copy.folder / "fold_0" / "metrics.json", (soon, soon))
    found = state(copy.make("status"))
    assert found["train"] == ["up to date"]
    assert found["infer"][0] == "stale: 1 of 2"
    assert "after train, which runs again or is newer" in found["infer"]
    assert found["ensemble"][0] == "stale"
    shutil.rmtree(copy.folder / "scores")
    assert state(copy.make("status"))["infer"] == ["not built"]


def test_made_by_hand(copy):
    (copy.outputs / ".make" / f"{TGRAPH}.train").unlink()
    found = state(copy.make("status"))
    assert "it was not made by make, which does not know its flags" in found["train"]


def test_a_training_under_way(copy):
    (copy.folder / "fold_1" / "metrics.json").unlink()
    about = {"identity": "x", "progress": {"epochs": 2}}
    tensors = {"a": torch.zeros(2)}
    checkpoint.save(copy.folder / "fold_1" / "state.safetensors", tensors, about)
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
    fold, stamps = copy.folder / "fold_0" / "metrics.json", copy.outputs / ".make"
    match what:
        case "a score is missing":
            (copy.folder / "scores" / "fold_1.parquet").unlink()
        case "the report is missing":
            (copy.folder / "report.html").unlink()
        case "sources are newer":
            os.utime(fold, (1e9, 1e9))
        case "flags were others, unfinished":
            (stamps / f"{TGRAPH}.infer").write_text("--permutations 7\n")
        case "flags were these, unfinished":
            (stamps / f"{TGRAPH}.infer").touch()
        case "raw files were others, unfinished":
            (stamps / f"{COLLECTION}.raw").touch()
        case "no stamp of raw files":
            (stamps / f"{COLLECTION}.raw").unlink()
        case "a raw file was touched":
            raw_file(copy).touch()
        case "a raw file is longer":
            with open(raw_file(copy), "ab") as file:
                file.write(b"x")
        case "a raw file is another of its size":
            raw_file(copy).write_bytes(raw_file(copy).read_bytes()[:-1] + b"x")
        case "a raw file is renamed":
            raw_file(copy).rename(raw_file(copy).with_name("renamed.npz"))


@pytest.mark.parametrize(
    ("what", "variables", "due"),
    [
        ("nothing", {}, ""),
        ("nothing", {"EPOCHS": 7}, "234"),
        ("nothing", {"TTA": 4}, "34"),
        ("nothing", {"FOLDS": 1}, "4"),
        ("nothing", {"FOLDS": 3}, "234"),
        ("nothing", {"JOBS": 1}, ""),
        ("nothing", {"KEEP_GOING": 1}, "1234"),
        ("nothing", {"ARGS": " ".join(TINY_FLAGS[4:] + TINY_FLAGS[2:4])}, "234"),
        ("a score is missing", {}, "34"),
        ("the report is missing", {}, "4"),
        ("sources are newer", {}, "234"),
        ("flags were others, unfinished", {}, "34"),
        ("flags were these, unfinished", {}, "34"),
        ("raw files were others, unfinished", {}, "1234"),
        ("no stamp of raw files", {}, "1234"),
        ("a raw file was touched", {}, ""),
        ("a raw file is longer", {}, "1234"),
        ("a raw file is another of its size", {}, "1234"),
        ("a raw file is renamed", {}, "1234"),
    ],
)
def test_what_is_called_stale_is_what_runs_again(copy, what, variables, due):
    raw = raw_file(copy)
    content, about = raw.read_bytes(), raw.stat()
    try:
        change(copy, what)
        planned = stages_in(copy.make("-n", "all", **variables))
        told = state(copy.make("status", **variables))
    finally:  # every test's
        raw.with_name("renamed.npz").unlink(missing_ok=True)
        raw.write_bytes(content)
        os.utime(raw, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert "".join(script[1] for script in planned) == due
    names = dict(zip(told, "1234", strict=True))
    assert "".join(names[stage] for stage in told if told[stage] != ["up to date"]) == due


def test_code_that_is_newer_but_the_same_and_code_that_is_another_but_no_newer(copy):
    os.utime(copy.folder / "fold_0" / "metrics.json", (1e9, 1e9))
    path = copy.folder / "stages" / "infer_1.json"
    write_json(path, {**read_json(path), "code": "0" * 64})
    found = state(copy.make("status"))
    assert any(line.startswith("newer, but the same: 02_train.py, ") for line in found["train"])
    assert (
        "its code is another, but no newer, so that make does not see it: touch 03_infer.py"
        in (found["infer"])
    )


def test_other_data_and_other_defaults_are_named(copy):
    for name, changed in (
        ("train_0", {"data": "0" * 64}),
        ("infer_0", {"settings": {"weights": "best"}}),
    ):
        path = copy.folder / "stages" / f"{name}.json"
        write_json(path, {**read_json(path), **changed})
    found = state(copy.make("status"))
    assert f"made from other data: 000000 → {Cache(copy.cache).fingerprint[:6]}" in found["train"]
    assert "changed: --weights best → last" in found["infer"]


def test_results_without_raw_data_are_looked_at(copy, tmp_path):
    found = state(copy.make("status", DATA=tmp_path / "none"))
    assert found["preprocess"][0] == "stale"
    assert "raw files were added, removed or changed" in found["preprocess"]


def test_libraries_that_take_seconds_are_not_imported():
    asked = "import sys, lib.report.status; print({'scipy', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", asked], cwd=REPOSITORY, capture_output=True)
    assert done.stdout == b"set()\n"
