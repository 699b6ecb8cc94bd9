"""What a stage tells of itself: how its run is grouped, and where stage 1's run is found."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from lib.runs.code import STAGES
from lib.runs.identity import Run
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
        stage.begin(name, Run(folder, settings, folds=0), data)
    return stage


def test_without_a_name_settings_are_a_group(tmp_path):
    first = run_stage(tmp_path, "preprocess")
    groups = [run_stage(tmp_path, name).tracker.about["group"] for name in STAGES[1:]]
    assert set(groups) == {first.tracker.about["group"]}, "of one experiment"
    for rate in (1e-3, 2e-3):  # two experiments on one cache
        changed = settings_for("layout-xla-default", TPUGRAPHS, {"learning_rate": rate})
        about = run_stage(tmp_path, "train", settings=changed).tracker.about
        groups.append(about["group"])
    assert len(set(groups)) == 3


def test_runs_are_found_by_data_collection_model_and_fold(tmp_path):
    tags = ["data-012345", "layout-xla-default", "tgraph-plus"]
    assert run_stage(tmp_path, "ensemble").tracker.about["tags"] == tags
    with Stage() as stage:
        stage.begin("train", Run(tmp_path, SETTINGS), DATA, fold=3)
    assert stage.tracker.about["tags"] == [*tags, "fold-3"]


def test_the_best_of_a_curve_is_its_highest_of_tau_and_its_lowest_of_losses_and_errors(tmp_path):
    assert run_stage(tmp_path, "infer").tracker.bests == {}
    slow = {f"validation/top_{k}_slowdown": "min" for k in (1, 5, 10)}
    pairs = {"validation/ordered_pair_accuracy": "max"}
    wanted = {"train/loss": "min", "validation/tau": "max", **pairs, **slow}
    assert run_stage(tmp_path, "train").tracker.bests == wanted
    programs = run_stage(tmp_path, "train", settings=settings_for("programs-cpu", TPUGRAPHS, {}))
    assert programs.tracker.bests["validation/mape"] == "min"


def test_with_a_name_all_stages_are_in_its_group(tmp_path):
    settings = replace(SETTINGS, experiment="trial")
    for name in STAGES:
        group = run_stage(tmp_path, name, settings=settings).tracker.about["group"]
        assert group == f"{SETTINGS.results}-trial"


def test_what_is_noted_before_the_run_begins_is_recorded(tmp_path):
    with Stage() as stage:
        stage.note(origins={"epochs": "command line"})
        stage.begin("train", Run(tmp_path, SETTINGS), DATA)
    assert json.loads(stage.path.read_text())["origins"] == {"epochs": "command line"}
