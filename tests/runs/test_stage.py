"""What a stage tells of itself: how its run is grouped, and where stage 1's run is found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lib.runs.identity import Making
from lib.runs.stage import Stage
from lib.settings import settings_for
from lib.tpugraphs.dataset import TPUGRAPHS

DATA = "0123456789" * 6
SETTINGS = settings_for("layout-xla-default", TPUGRAPHS, {})


@pytest.fixture(autouse=True)
def untracked(monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")


def run_stage(folder, name, data=DATA, settings=SETTINGS) -> Stage:
    with Stage() as stage:
        stage.begin(name, Making(folder, settings, folds=0), data)
    return stage


def test_without_a_name_a_cache_is_its_own_group_and_later_runs_say_which_run_made_it(tmp_path):
    first = run_stage(tmp_path, "preprocess")
    assert first.tracker.about["group"] == f"{SETTINGS.results}-data-012345"
    groups = set()
    for rate in (1e-3, 2e-3):  # two experiments on one cache
        changed = settings_for("layout-xla-default", TPUGRAPHS, {"learning_rate": rate})
        about = run_stage(tmp_path, "train", settings=changed).tracker.about
        groups.add(about["group"])
        assert about["config"]["preprocess_run"] == first.tracker.about["id"]
        assert about["tags"] == first.tracker.about["tags"] == ["data-012345"]
    assert len(groups) == 2


def test_with_a_name_all_stages_are_in_its_group(tmp_path):
    settings = replace(SETTINGS, experiment="trial")
    for name in ("preprocess", "train", "infer", "ensemble"):
        group = run_stage(tmp_path, name, settings=settings).tracker.about["group"]
        assert group == f"{SETTINGS.results}-trial"


@pytest.mark.parametrize(
    "record", [None, "{", "[]", "3", '{"run": 3}', json.dumps({"run": "x", "data": "other"})]
)
def test_no_run_of_stage_1_is_told_that_is_not_known(tmp_path, record):
    path = run_stage(tmp_path, "preprocess").path
    if record is None:
        path.unlink()
    else:
        path.write_text(record)
    assert run_stage(tmp_path, "train").tracker.about["config"]["preprocess_run"] is None


def test_what_is_noted_before_the_run_begins_is_recorded(tmp_path):
    with Stage() as stage:
        stage.note(origins={"epochs": "command line"})
        stage.begin("train", Making(tmp_path, SETTINGS), DATA)
    assert json.loads(stage.path.read_text())["origins"] == {"epochs": "command line"}
