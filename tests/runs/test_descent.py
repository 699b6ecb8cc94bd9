"""What stages 3 and 4 read is of this fold, these settings, data and code, or one line says so."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from lib.runs.descent import check_scored, check_trained

from lib.files.artifacts import read_json, write_json
from lib.files.errors import DataError
from lib.files.sealed import sealed
from lib.runs.identity import Run
from lib.runs.make import parts_of
from lib.settings import settings_for
from tests.builders import COLLECTION, CPU_LAYOUTS
from tests.pretended import pretend


def making_in(folder: Path, **given: object) -> Run:
    settings = settings_for(COLLECTION, CPU_LAYOUTS, {"model": "tgraph", **given})
    return Run(folder, settings, folds=2)


@pytest.fixture
def made(tmp_path) -> Run:
    """What the stages would leave of two folds, as far as it tells what it was made from."""
    return make(making_in(tmp_path))


def make(making: Run) -> Run:
    making.cache.mkdir(parents=True, exist_ok=True)
    (making.cache / "manifest.json").write_text('{"fingerprint": "d"}')
    making.__dict__.pop("data_of_training", None)
    for stage, fold in parts_of(making)[1:-1]:
        pretend(making, stage, fold)
    return making


def scores(making: Run, fold: int) -> Path:
    return making.files("infer", fold)[0]


def metrics(making: Run, fold: int) -> Path:
    return making.folder / f"fold_{fold}" / "metrics.json"


def exchange(one: Path, other: Path) -> None:
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def test_what_this_run_would_make_is_taken(made):
    for fold in (0, 1):
        check_scored(made, fold)


@pytest.mark.parametrize(
    ("how", "told"),
    [
        ("metrics of two folds", r"fold_0/metrics\.json: fold: found 1, expected 0; train again"),
        ("scores of two folds", r"scores/fold_0\.parquet: identity: found that of fold 1, "),
        ("a digit", r"fold_0/metrics\.json: checksum: found \w{8} \(damaged\)"),
        (
            "metrics of a rate",
            r"metrics\.json: learning_rate: found 0\.5, expected .* as --l",
        ),
        ("scores of a rate", r"fold_0\.parquet: identity: found that of other weights or settings"),
        ("metrics of a network", r"metrics\.json: channels: found 16, expected 128 as --channels"),
        ("scores of a network", r"fold_0\.parquet: identity: found that of other weights"),
        ("other data", r"metrics\.json: data: found another cache's fingerprint"),
        ("other code", r"metrics\.json: identity: found that of other code"),
    ],
)
def test_what_is_of_another_run_is_refused(made, tmp_path, how, told):
    if how == "metrics of two folds":
        exchange(metrics(made, 0), metrics(made, 1))
    elif how == "scores of two folds":
        exchange(scores(made, 0), scores(made, 1))
    elif how == "a digit":
        path = metrics(made, 0)
        path.write_text(path.read_text().replace("1", "2", 1))
    elif how.endswith(("a rate", "a network")):
        given = {"learning_rate": 0.5} if how.endswith("a rate") else {"channels": 16}
        other = make(making_in(tmp_path / "other", **given))
        of = metrics if how.startswith("metrics") else scores
        of(made, 0).write_bytes(of(other, 0).read_bytes())
    else:
        about = read_json(metrics(made, 0))
        about |= {"data": "x"} if how == "other data" else {"identity": "0" * 64}
        write_json(metrics(made, 0), sealed(about))
    with pytest.raises(DataError, match=told) as refused:
        check_scored(made, 0)
    assert "\n" not in str(refused.value)


def test_weights_are_told_by_what_they_say_of_themselves(made):
    about = read_json(metrics(made, 1))
    check_trained(Path("last.safetensors"), about, made, 1)
    with pytest.raises(DataError, match=re.escape("last.safetensors: fold: found 1, expected 0")):
        check_trained(Path("last.safetensors"), about, made, 0)
    assert json.loads(json.dumps(about)) == about
