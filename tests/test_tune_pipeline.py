"""`make tune`, killed and resumed, and its settings file through `make all`."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest

from lib.files.artifacts import read_json
from lib.runs.stage import Stage
from lib.tune.__main__ import main as tune
from tests import killing
from tests.builders import COLLECTION, TGRAPH
from tests.commands import Said, call
from tests.stages import (
    SCRIPTS,
    TINY_FLAGS,
    make,
    run_make,
    stages_in,
)
from tests.synthetic import write_collection

VARIABLES = {
    "MODEL": "tgraph",
    "EPOCHS": 2,
    "ARGS": " ".join((*TINY_FLAGS[2:4], *TINY_FLAGS[6:])),  # the channels are searched
    "FOLDS": 1,  # tests/tune tries more
    "JOBS": 1,
}
TRIALS, SEEDS = 3, 1


@dataclass(frozen=True)
class Run:
    """A finished search: its data root, the outputs, and what make said at last."""

    data: Path
    outputs: Path
    said: str

    @property
    def folder(self) -> Path:
        return self.outputs / TGRAPH / "tune"

    def given(self, **variables: object) -> dict[str, object]:
        return {"DATA": self.data, "OUTPUTS": self.outputs, **VARIABLES, **variables}

    def flags(self, **flags: object) -> list[str]:
        """What make gives to the command."""
        given = {"collection": COLLECTION, "data": self.data, "outputs": self.outputs}
        given |= {"model": "tgraph", "epochs": VARIABLES["EPOCHS"], "folds": VARIABLES["FOLDS"]}
        given |= {"trials": TRIALS, "seeds": SEEDS, **flags}
        words = [f"--{name}={value}" for name, value in given.items()]
        return [*words, *VARIABLES["ARGS"].split()]

    def call(self, **flags: object) -> Said:
        """What make runs, in this process."""

        def main(line: list[str]) -> None:
            with Stage() as stage:
                tune(stage, line)

        return call(main, *self.flags(**flags))


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Run:
    """Killed in its second trial, and run again to its end."""
    root = tmp_path_factory.mktemp("tune")
    write_collection(root / "data", COLLECTION, train=6, valid=2, test=2)
    made = Run(root / "data", root / "outputs", "")
    given = made.given(TRIALS=TRIALS, SEEDS=SEEDS)
    make("preprocess", **given)
    assert killing.run("lib.tune", *made.flags(), step=3) is None
    assert (made.folder / "best.toml").exists()  # written when a trial has ended
    assert not (made.folder / "report.html").exists()
    return Run(made.data, made.outputs, make("tune", **given))


def test_a_killed_search_goes_on_to_its_end(run):
    assert f"{TRIALS} trials of tgraph on {COLLECTION}, a fold each" in run.said
    assert "learning_rate" in run.said
    assert sorted(path.name for path in run.folder.iterdir()) == [
        "best.toml",
        "study.db",
    ]


def test_more_trials_begin_with_those_there_are(run):
    again = run.call()
    assert again.returncode == 0, again.stderr
    assert again.stdout.splitlines()[-1] == run.said.splitlines()[-1]


@pytest.fixture(scope="module")
def tuned(run) -> dict[str, object]:
    """Variables of make that use the best values, with which all was made."""
    path = run.outputs / "mine.toml"
    path.write_text((run.folder / "best.toml").read_text())
    given = run.given(SETTINGS=path)
    assert stages_in(make("all", **given)) == list(SCRIPTS[1:])
    return given


def test_the_settings_file_is_what_the_stages_use(run, tuned):
    values = tomllib.loads(tuned["SETTINGS"].read_text())
    assert (values.pop("collection"), values.pop("model")) == (COLLECTION, "tgraph")
    record = read_json(run.outputs / TGRAPH / "stages" / "train_0.json")
    assert {name: record["settings"][name] for name in values} == values
    assert {record["origins"][name] for name in values} == {str(tuned["SETTINGS"])}
    assert record["origins"]["epochs"] == "command line"
    assert record["origins"]["keep_together"] == "this data root"
    assert "warmup" in values or "warmup" not in record["origins"]


def test_what_a_trial_said_is_what_stage_2_says(run, tuned):
    """The best trial's value is its fold's validation."""
    fold = read_json(run.outputs / TGRAPH / "fold_0" / "metrics.json")
    assert f"validation tau {fold['validation']['tau']:.4f} in trial" in run.said


def test_other_values_in_the_file_are_made_again_and_told(run, tuned):
    assert "stale" not in make("status", **tuned)
    assert stages_in(make("-n", "all", **tuned)) == []
    path = tuned["SETTINGS"]
    text = path.read_text()
    rate = tomllib.loads(text)["learning_rate"]
    try:
        path.write_text(text.replace(f"learning_rate = {rate!r}", "learning_rate = 0.5"))
        assert stages_in(make("-n", "all", **tuned)) == list(SCRIPTS[1:])
        assert f"changed: --learning-rate {rate!r} → 0.5" in make("status", **tuned)
        path.write_text("learning_rate = 5\n")
        done = run_make("all", **tuned)
        assert done.returncode == 2
        assert f"*** {path}: learning_rate: found 5.0, expected from 0 to 1. " in done.stderr
    finally:
        path.write_text(text)


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"trials": 0}, "--trials 0: must be at least 1"),
        ({"seeds": -1}, "--seeds -1: must be at least 0"),
        ({"folds": 3}, "--folds 3 (FOLDS of make): must be from 1 to --folds-total, 2"),
    ],
)
def test_what_cannot_be_searched_is_one_line(run, flags, said):
    assert run.call(**flags) == Said(2, "", f"error: {said}\n")


def test_make_tells_of_its_own_variable(run):
    assert "TRIALS=0: must be a whole number" in run_make("tune", **run.given(TRIALS=0)).stderr


def test_a_spoilt_database_is_one_line(run):
    path = run.folder / "study.db"
    content = path.read_bytes()
    try:
        path.write_bytes(b"no database of anything" * 99)
        done = run.call()
    finally:
        path.write_bytes(content)
    assert done.returncode == 2
    assert f"error: {path}: database: found file is not a database, expected" in done.stderr
