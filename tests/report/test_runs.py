"""Runs in W&B, read back from those that were kept offline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lib.files.artifacts import read_json
from lib.report.sync import waiting
from tests.builders import COLLECTION, TGRAPH
from tests.report.conftest import FOLDER

if TYPE_CHECKING:
    from tests.wandb_reader import OfflineRun

RUNS = ("preprocess", "train-0", "train-1", "infer-0", "infer-1", "ensemble")
SLOWDOWNS = {f"validation/top_{k}_slowdown" for k in (1, 5, 10)}


@pytest.fixture(scope="module")
def runs(finished) -> dict[str, OfflineRun]:
    from tests.wandb_reader import read_run  # late, with W&B: each process of tests imports this

    paths = (finished.outputs / "wandb").glob("offline-run-*/*.wandb")
    found = [read_run(path) for path in paths]
    start = len(f"{FOLDER}-")  # though ids have no @ and no +
    return {run.about.run_id[start:].rpartition("-")[0]: run for run in found}


def test_every_stage_is_a_run_of_its_job(runs):
    assert set(runs) == set(RUNS)
    for part, run in runs.items():
        assert run.about.job_type == part.split("-")[0]
        assert run.about.run_group == f"{TGRAPH}-trial"
        assert run.exit_code == 0
        assert run.config["data"] == runs["preprocess"].config["data"]
        assert {"channels", "experiment", "versions", "machine"} <= set(run.config)
        assert run.summary["seconds"] > 0


@pytest.mark.parametrize("fold", [0, 1])
def test_training_logs_by_epoch(runs, finished, fold):
    run = runs[f"train-{fold}"]
    drawn = {"train/*", "validation/*"}
    assert run.axes == dict.fromkeys(drawn | {"time/*"} | run.bests.keys(), "epoch")
    assert run.hidden == {"epoch", "time/*"}
    assert (run.bests["validation/tau"], run.bests["train/loss"]) == ("max", "min")
    points = [row for row in run.history if "epoch" in row]
    assert [row["epoch"] for row in points] == [row["_step"] for row in points] == [1, 2, 3]
    wanted = {f"train/{k}" for k in ("loss", "learning_rate", "gradient_norm")}
    wanted |= {"time/configurations_per_second", "validation/tau", *SLOWDOWNS}
    for row in points:
        assert wanted <= set(row)
        assert not [name for name in row if "second" in name and not name.startswith("time/")]
    metrics = read_json(finished.folder / f"fold_{fold}" / "metrics.json")
    assert points[-1]["validation/tau"] == metrics["last"]["tau"]
    assert run.summary["best_tau"] == metrics["best"]["tau"]
    assert run.summary["validation/tau"] == {"max": max(run.column("validation/tau"))}
    assert run.config["fold"] == fold
    found = table(finished.outputs, run, "graphs")
    assert found["columns"] == ["graph", "best_tau", "last_tau"]
    assert {name: last for name, _, last in found["data"]} == metrics["last"]["graphs"]


def test_the_ensemble_logs_means_table_report_and_submission(runs, finished):
    run = runs["ensemble"]
    metrics = read_json(finished.folder / "metrics.json")
    assert run.summary["validation/tau"] == metrics["validation"]["mean"]["tau"]
    assert run.artifacts[f"submission-{COLLECTION}"] == "submission"
    assert run.column("report/_type") == ["html-file"]
    page = media(finished.outputs, run, "report")
    assert page.read_bytes() == (finished.folder / "report.html").read_bytes()  # policy and all
    rows = table(finished.outputs, run, "graphs")
    assert {row[0] for row in rows["data"]} == {"validation", "training"}
    taus = [row[rows["columns"].index("tau")] for row in rows["data"]]
    assert taus == sorted(taus), "worst first"


@pytest.mark.parametrize("fold", [0, 1])
def test_the_weights_of_a_fold_are_an_artifact_of_its_run(runs, finished, fold):
    name = f"weights-{FOLDER.replace('@', '-').replace('+', '-')}-fold-{fold}"
    run = runs[f"train-{fold}"]
    assert run.artifacts[name] == "model"
    folder = finished.folder / f"fold_{fold}"
    assert run.files[name] == {
        path: (folder / path).stat().st_size
        for path in ("model.safetensors", "last.safetensors", "metrics.json")
    }


def media(outputs: Path, run: OfflineRun, name: str) -> Path:
    """A file that a run logged."""
    (path,) = run.column(f"{name}/path")
    (file,) = (outputs / "wandb").glob(f"offline-run-*-{run.about.run_id}/files/{path}")
    return file


def table(outputs: Path, run: OfflineRun, name: str) -> dict:
    """A table that a run logged."""
    return json.loads(media(outputs, run, name).read_text())


def test_sync_without_a_key_says_so(finished, tmp_path, monkeypatch):
    assert len(waiting(finished.outputs)) == len(RUNS)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(AssertionError, match=r"error: 6 runs wait in .*: set WANDB_API_KEY, or"):
        finished.make("wandb-sync")
