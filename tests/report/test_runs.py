"""Runs in W&B: what those that were kept offline have left."""

from __future__ import annotations

import json

import pytest

from tests.report.conftest import FOLDER

RUNS = ("preprocess", "train-0", "train-1", "infer-0", "infer-1", "ensemble")


def test_every_stage_is_a_run_with_its_tables_and_the_report(finished):
    start = len(f"{FOLDER}-")  # though ids have no @ and no +
    runs = {
        path.stem.removeprefix("run-")[start:].rpartition("-")[0]: path.parent / "files" / "media"
        for path in (finished.outputs / "wandb").glob("offline-run-*/run-*.wandb")
    }
    assert set(runs) == set(RUNS)
    (page,) = (runs["ensemble"] / "html").glob("report_*.html")
    assert page.read_bytes() == (finished.folder / "report.html").read_bytes()  # policy and all
    (table,) = (runs["ensemble"] / "table").glob("graphs_*.json")
    rows = json.loads(table.read_text())
    taus = [row[rows["columns"].index("tau")] for row in rows["data"]]
    assert taus == sorted(taus) and len(taus) == 16, "worst first"
    assert list((runs["train-0"] / "table").glob("graphs_*.json"))


def test_runs_that_were_kept_wait_for_a_key(finished, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(AssertionError, match=r"Syncing 6 run(.|\n)*No API key configured"):
        finished.make("wandb-sync")
