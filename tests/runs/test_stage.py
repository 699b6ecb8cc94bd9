"""The run of a stage: its record, how it is grouped in W&B, and whether it works at all."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lib.files.artifacts import read_json, write_json
from lib.runs.code import STAGES
from lib.runs.stage import Stage, parser_of
from lib.settings import resolve
from tests.builders import COLLECTION
from tests.pretended import pretend

DATA = "0123456789" * 6


@pytest.fixture(autouse=True)
def untracked(monkeypatch):
    monkeypatch.setenv("WANDB_MODE", "disabled")


def stage_of(folder, name: str, *flags: str, collection: str = COLLECTION) -> Stage:
    fold = ["--fold", "3"] if name in ("train", "infer") else []
    line = ["--collection", collection, "--outputs", str(folder), *fold, *flags]
    arguments = parser_of(name).parse_args(line)
    return Stage(name, arguments, resolve(arguments))


def begun(folder, name: str, *flags: str, **given: str) -> Stage:
    with stage_of(folder, name, *flags, **given) as stage:
        stage.begin(DATA)
        stage.track()
    return stage


def groups(folder, *flags: str) -> Iterator[str]:
    for name in ("train", "ensemble"):
        yield begun(folder, name, *flags).tracker.arguments["group"]


def test_settings_are_a_group_or_the_name_of_the_experiment(tmp_path):
    (first,) = set(groups(tmp_path))
    (other,) = set(groups(tmp_path, "--learning-rate", "0.1"))
    assert first != other
    assert set(groups(tmp_path, "--experiment", "trial")) == {f"{COLLECTION}-trial"}


def test_runs_are_found_by_data_collection_model_and_fold(tmp_path):
    tags = ["data-012345", COLLECTION, "tgraph-plus"]
    assert begun(tmp_path, "ensemble").tracker.arguments["tags"] == tags
    assert begun(tmp_path, "train").tracker.arguments["tags"] == [*tags, "fold-3"]


def test_the_best_of_a_curve_is_its_highest_of_tau_and_its_lowest_of_losses_and_errors(tmp_path):
    assert begun(tmp_path, "ensemble").tracker.bests == {}
    slow = {f"validation/top_{k}_slowdown": "min" for k in (1, 5, 10)}
    wanted = {"train/loss": "min", "validation/tau": "max", **slow}
    assert begun(tmp_path, "train").tracker.bests == wanted
    programs = begun(tmp_path, "train", collection="programs-cpu")
    assert programs.tracker.bests["validation/mape"] == "min"


def test_a_record_has_settings_and_identity(tmp_path):
    stage = begun(tmp_path, "train", "--epochs", "3")
    record = json.loads(stage.path.read_text())
    assert (record["settings"]["epochs"], record["fold"]) == (3, 3)
    assert record["identity"] == stage.run.identity("train", 3)


@pytest.mark.parametrize("name", STAGES)
def test_a_stage_whose_results_are_up_to_date_says_so(tmp_path, capsys, name):
    flags = ("--folds", "4") if name in ("train", "ensemble") else ()
    with stage_of(tmp_path, name, *flags) as stage:
        assert not stage.up_to_date()
    pretend(stage.run, name, stage.fold)
    capsys.readouterr()
    with stage_of(tmp_path, name, *flags) as again:
        assert again.up_to_date()
    of_fold = "" if again.fold is None else " fold 3"
    assert capsys.readouterr().out.startswith(f"{name}: {COLLECTION}{of_fold}: up to date, ")
    assert stage_of(tmp_path, name, *flags).run.up_to_date(name, again.fold)
    assert read_json(again.path)["identity"] == again.run.identity(name, again.fold)


def test_results_of_code_that_was_edited_are_said_to_be_replaced(tmp_path, capsys):
    """And how they are kept; not those of other settings, which the user has just typed."""
    with stage_of(tmp_path, "train", "--folds", "4") as stage:
        pretend(stage.run, "train", 3)
    with stage_of(tmp_path, "train", "--folds", "4", "--epochs", "9") as other:
        assert not other.up_to_date()
    assert "replaces" not in capsys.readouterr().out
    record = read_json(stage.path)
    record["made_from"]["code"]["lib/training/loss.py"] = "other"
    write_json(stage.path, record)
    with stage_of(tmp_path, "train", "--folds", "4", "--epochs", "9") as edited:
        assert not edited.up_to_date()
    line = f"train: {COLLECTION} fold 3: replaces those of other lib/training/loss.py; EXPERIMENT="
    assert capsys.readouterr().out.startswith(line)
