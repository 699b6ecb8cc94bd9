"""Which trials a search runs, repeats and counts; training is a formula here."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lib.files.artifacts import write_json
from lib.files.errors import UserError
from lib.settings import MODELS, settings_for
from lib.settings.file import read_settings
from lib.tpugraphs.dataset import read_dataset
from lib.tune.__main__ import Tuning, ended
from lib.tune.__main__ import main as tune
from tests.builders import COLLECTION
from tests.commands import call
from tests.synthetic import write_collection

KIND = MODELS["layout"]["tgraph"]
FIXED = ("--model=tgraph", "--channels=32")


class Killed(BaseException):
    """The process is gone."""


def formula(values: Mapping[str, Any]) -> float:
    """A value that is highest at a rate of 0.012."""
    return 0.7 - 10 * abs(values.get("learning_rate", 0.005) - 0.012)


@pytest.fixture
def search(tmp_path, monkeypatch):
    """A function that searches with a formula: what it said, its trials, and what was trained."""
    write_collection(tmp_path / "data", COLLECTION, train=2, valid=1, test=0)
    manifest = {"fingerprint": "f"}

    def run(count: int, value: Callable = formula, where: str = "out", **flags: object):
        outputs, trained, made = tmp_path / where, [], []
        cache = next(iter({KIND(collection=COLLECTION).cache}))
        write_json(outputs / cache / "manifest.json", manifest)
        monkeypatch.setattr("lib.tune.__main__.read_manifest", lambda folder: manifest)

        def train(self, values):
            made.append(self)
            trained.append(dict(values))
            return value(values)

        if value is not None:
            monkeypatch.setattr(Tuning, "train", train)
        line = [f"--collection={COLLECTION}", f"--data={tmp_path / 'data'}", *FIXED]
        flags = {"outputs": outputs, "trials": count} | flags
        said = call(tune, *line, *(f"--{name}={value}" for name, value in flags.items()))
        best = outputs / f"{COLLECTION}@tgraph" / "tune" / "best.toml"
        return said, (ended(made[0].study) if made else []), trained, best

    return run


def test_the_first_trial_has_the_settings_as_they_are_and_later_ones_are_better(search, tmp_path):
    said, trials, trained, best = search(10)
    assert said.returncode == 0, said.stderr
    assert len(trained) == len(trials) == 10
    assert "channels" not in trained[0]  # which was given
    values = trained[0]
    usual = settings_for(COLLECTION, read_dataset(tmp_path / "data"), {"model": "tgraph"})
    assert all(getattr(usual, name) == values[name] for name in values)
    assert max(trial.value for trial in trials) > trials[0].value
    assert f"10 trials of tgraph on {COLLECTION}: validation tau " in said.stdout
    found = read_settings(best, COLLECTION, KIND)
    assert found == max(trials, key=lambda trial: trial.value).params
    assert f"SETTINGS={best}" in said.stdout


def test_a_search_that_is_killed_tries_what_it_would_have_tried(search):
    whole = search(3, where="whole")[1]
    begun = []

    def dies(values):
        begun.append(values)
        if len(begun) > 2:
            raise Killed
        return formula(values)

    with pytest.raises(Killed):
        search(3, dies)
    resumed = search(3)[1]
    assert [(t.params, t.value) for t in resumed] == [(t.params, t.value) for t in whole]
    assert len(search(4)[2]) == 1  # one more goes on from those there are


def test_a_trial_that_cannot_be_trained_counts_and_the_search_goes_on(search):
    def value(values):
        if values["learning_rate"] > 0.002:
            raise UserError("diverged")
        return formula(values)

    said, trials, _, _ = search(8, value)
    failed = [trial for trial in trials if trial.value is None]
    assert len(trials) == 8 and {trial.user_attrs["why"] for trial in failed} == {"diverged"}
    assert f", {len(failed)} failed: " in said.stdout


@pytest.mark.parametrize(
    ("code", "said", "line"),
    [
        (130, "", "interrupted"),
        (2, "a\nerror: diverged", "2 trials, and none has a value: diverged"),
    ],
)
def test_a_stage_that_fails_is_a_failed_trial_unless_the_user_stopped_it(
    search, monkeypatch, code, said, line
):
    ended_so = subprocess.CompletedProcess([], code, "", said)
    monkeypatch.setattr("lib.tune.__main__.subprocess.run", lambda *_, **__: ended_so)
    assert line in search(2, value=None)[0].stderr
    monkeypatch.undo()
    assert len(search(2)[2]) == (2 if code == 130 else 0)


def test_a_spoilt_database_is_one_line(search):
    path: Path = search(1)[3].with_name("study.db")
    path.write_bytes(b"no database of anything" * 99)
    said = search(2)[0]
    assert said.returncode == 2
    assert f"error: {path}: database: found file is not a database, expected" in said.stderr
    shutil.rmtree(path.parent)
