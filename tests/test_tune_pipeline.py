"""`make tune` with real trainings, and its settings file through `make all`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from lib.files.artifacts import read_json
from tests.builders import COLLECTION, TGRAPH
from tests.stages import SCRIPTS, TINY_FLAGS, make, stages_in
from tests.synthetic import write_collection

# The channels are searched.
ARGS = " ".join((*TINY_FLAGS[2:4], *TINY_FLAGS[6:]))
VARIABLES = {"MODEL": "tgraph", "EPOCHS": 2, "ARGS": ARGS, "FOLDS": 1, "JOBS": 1}


@pytest.fixture(scope="module")
def searched(tmp_path_factory) -> tuple[dict[str, object], Path, str]:
    """Variables of make, the folder of the search, and what it said."""
    root = tmp_path_factory.mktemp("tune")
    write_collection(root / "data", COLLECTION, train=6, valid=2, test=2)
    given = {"DATA": root / "data", "OUTPUTS": root / "outputs", **VARIABLES}
    said = make("tune", **given, TRIALS=2)
    return given, root / "outputs" / TGRAPH / "tune", said


def test_a_search_leaves_its_database_and_the_best_settings_alone(searched):
    given, folder, said = searched
    assert f"2 trials of tgraph on {COLLECTION}: validation tau " in said
    assert sorted(path.name for path in folder.iterdir()) == ["best.toml", "study.db"]
    assert [path for path in folder.parents[1].iterdir() if "+" in path.name] == []
    assert make("tune", **given, TRIALS=2).splitlines()[-3:] == said.splitlines()[-3:]


def test_stages_use_the_best_settings_and_come_to_what_the_trial_said(searched):
    given, folder, said = searched
    given = given | {"SETTINGS": folder / "best.toml"}
    assert stages_in(make("all", **given)) == list(SCRIPTS[1:])
    values = tomllib.loads((folder / "best.toml").read_text())
    assert (values.pop("collection"), values.pop("model")) == (COLLECTION, "tgraph")
    record = read_json(folder.parent / "stages" / "train_0.json")
    assert {name: record["settings"][name] for name in values} == values
    fold = read_json(folder.parent / "fold_0" / "metrics.json")
    assert f"validation tau {fold['validation']['tau']:.4f} in trial" in said
