"""Runs in W&B: what those that were kept offline have left."""

from __future__ import annotations

import os

import pytest

from tests.report.conftest import FOLDER
from tests.stages import run_make, script

RUNS = ("train-0", "train-1", "ensemble")


def test_folds_and_the_ensemble_are_runs_and_the_report_stands_in_it(finished):
    start = len(f"{FOLDER}-")  # though ids have no @ and no +
    runs = {
        path.stem.removeprefix("run-")[start:].rpartition("-")[0]: path.parent / "files" / "media"
        for path in (finished.outputs / "wandb").glob("offline-run-*/run-*.wandb")
    }
    assert set(runs) == set(RUNS)
    (page,) = (runs["ensemble"] / "html").glob("report_*.html")
    assert page.read_bytes() == (finished.folder / "report.html").read_bytes()  # policy and all


def test_runs_that_were_kept_wait_for_a_key(finished, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(AssertionError, match="No API key configured"):
        finished.make("wandb-sync")


def test_runs_are_uploaded_each_within_a_time_and_what_is_left_is_named(tmp_path):
    """W&B ends well with all, marks what it has uploaded, and may never end."""
    upload = 'case "$*" in *" sync --yes "*good*) touch "$5/run-x.wandb.synced" ;; esac'
    limit = '[ $1 = 100 ] || exit 3; shift; case "$*" in *hangs*) exit 124 ;; esac; exec "$@"'
    for name, line in (("python", upload), ("timeout", limit)):
        script(tmp_path / "bin" / name, f"#!/bin/sh\n{line}\n")
    runs = [
        tmp_path / "wandb" / f"offline-run-{name}" for name in ("bad", "good", "hangs", "good2")
    ]
    for run in runs:
        run.mkdir(parents=True)
    for stamp in ("", "-torch"):
        (tmp_path / f".ready{stamp}").touch()
    path = {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"}
    done = run_make("wandb-sync", venv=tmp_path, environ=path, OUTPUTS=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"error: not uploaded, or not within 100 s: {runs[0]}/ {runs[2]}/\n"
    )
    assert [run.name for run in runs if list(run.glob("*.synced"))] == [runs[1].name, runs[3].name]
