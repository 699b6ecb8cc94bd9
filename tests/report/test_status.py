"""`make status`: what is built, what is stale and why."""

from __future__ import annotations

import io
import os
import shutil
import sys
import time

import pytest
import torch

from lib.cache.reader import Cache
from lib.files import checkpoint
from lib.report.status import main
from tests.builders import TGRAPH
from tests.report.conftest import Finished


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


def test_a_trace_that_is_not_text(tmp_path, monkeypatch, capsys):
    """Names of files need not be text, and make prints them as they are."""
    trace = b"Makefile:1: target '\xff' does not exist\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(trace)))
    flags = ["--folds", "2", "--cache", "cache", "--stamps", "."]
    monkeypatch.setattr(sys, "argv", ["status", str(tmp_path / "none"), *flags])
    main()
    assert "nothing is built yet" in capsys.readouterr().out
