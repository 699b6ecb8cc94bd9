"""programs-cpu through make and the real stage scripts, on generated programs."""

from __future__ import annotations

import json
import subprocess
import sys

import polars as pl
import pytest

from tests.programs import COLLECTION, write_root
from tests.stages import REPOSITORY, SCRIPTS, environment, make, stages_in

PLUS = "--folds-total 2 --channels 16 --layers 1 --heads 2 --trees 20 --tree-depth 3"
PAPER = "--folds-total 2 --channels 16 --layers 1 --heads 2"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What make was given, the folder of results, what it said, and how to make again."""
    root = tmp_path_factory.mktemp("programs")
    write_root(root / "data", tasks=15, programs=16)
    given = {"COLLECTION": COLLECTION, "DATA": root / "data", "OUTPUTS": root / "out"}
    given |= {"FOLDS": 2, "EPOCHS": 2, "ARGS": PLUS}

    def again(**changes: object) -> str:
        return make("all", **{**given, **changes})

    return root / "out", again(), again


def test_every_stage_ran_once(run):
    _, output, again = run
    assert stages_in(output) == list(SCRIPTS)
    for line in ("preprocess: ", "train: ", "infer: ", "ensemble: "):
        assert f"\n{line}{COLLECTION}" in output
    assert "validation mape" in output and "15 tasks in " in output
    assert stages_in(again()) == []


def test_another_model_uses_the_same_cache(run):
    folder, _, again = run
    output = again(MODEL="cdmpp", ARGS=PAPER)
    assert stages_in(output) == list(SCRIPTS)[1:]
    assert (folder / f"{COLLECTION}@cdmpp" / "predictions.csv").exists()


def test_predictions_stand_beside_measured_latencies(run):
    folder, _, _ = run
    rows = pl.read_csv(folder / COLLECTION / "predictions.csv")
    metrics = json.loads((folder / COLLECTION / "metrics.json").read_text())
    error = (rows["prediction"] / rows["latency"] - 1).abs()
    own = rows["split"] == "test"
    found = metrics["test"]["groups"]["all"]["all"]["mape"]
    assert error.filter(own).mean() == pytest.approx(found, rel=1e-4)
    assert set(rows["split"]) == {"test", "valid"} and error.is_finite().all()


def test_the_report_has_errors_by_device_and_operator(run):
    folder, _, _ = run
    page = (folder / COLLECTION / "report.html").read_text()
    for word in ("Predicted against measured latency", "cpu.avx512.1t", "softmax", "noise floor"):
        assert word in page
    assert "Predicted rank" not in page and "network ranks" not in page


@pytest.mark.parametrize("target", ["status", "compare"])
def test_results_can_be_looked_at(run, target):
    folder, _, again = run
    again(MODEL="cdmpp", ARGS=PAPER)
    sides = {"A": folder / COLLECTION, "B": folder / f"{COLLECTION}@cdmpp"}
    given = {"COLLECTION": COLLECTION, "OUTPUTS": folder, "DATA": folder.parent / "data"}
    given |= {"FOLDS": 2, "EPOCHS": 2, "ARGS": PLUS}
    output = make(target, **(sides if target == "compare" else given))
    assert "MAPE" in output
    if target == "status":
        assert output.count("up to date") == 4, output


def test_changed_measurements_are_read_again_and_split_as_is_asked_for(run):
    folder, _, again = run
    before = (folder / COLLECTION / "cache" / "manifest.json").read_text()
    write_root(folder.parent / "data", tasks=15, programs=16, seed=1)
    assert stages_in(again(ARGS=f"{PLUS} --split random")) == list(SCRIPTS)
    assert (folder / COLLECTION / "cache" / "manifest.json").read_text() != before
    rows = pl.read_csv(folder / COLLECTION / "predictions.csv")
    assert (rows["split"] == "test").mean() == pytest.approx(1 / 3, abs=0.12)  # one of three tenths


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["-m", "lib.study", "--collection", COLLECTION], "study: of rankings"),
        (["02_train.py", "--collection", COLLECTION, "--fold", "0", "--split", "x"], "--split 'x'"),
    ],
)
def test_what_makes_no_sense_is_told_in_one_line(run, command, said):
    folder, _, _ = run
    flags = ["--data", folder.parent / "data", "--outputs", folder]
    line = [sys.executable, *command, *map(str, flags)]
    done = subprocess.run(
        line, cwd=REPOSITORY, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1
