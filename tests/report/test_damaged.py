"""Outputs that are damaged: one line that names the file, or, of a mere record, a warning."""

from __future__ import annotations

import copy
import json
import random
import sys
from typing import Any

import pytest

from lib.files.artifacts import read_json, write_json
from lib.files.errors import DataError, UserError
from lib.report import compare, status
from lib.report.experiment import read_experiment
from lib.runs.make import all_flags
from tests.report.builders import graph_row, write_outputs, write_report

ODD = ("[]", "{", "[" * 50_000, "\udcff", '{"a": {"b": []}}')
METRICS, FOLD, RECORD = "metrics.json", "fold_0/metrics.json", "stages/train_0.json"
DOCUMENTS = (METRICS, FOLD, RECORD)


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "layout-xla-default"
    rows = {f"g{index}": graph_row(0.5 + index / 10) for index in range(4)}
    write_outputs(folder, rows, rows, machine={"not": "of a record"})
    machine = {"processor": "a", "cores": 2, "system": "b", "python": "3"}
    spent = {"seconds": 2.0, "peak_memory_bytes": 1000, "experiment": "first", "machine": machine}
    for name in ("train_0", "infer_0", "ensemble"):
        record = {**spent, "stage": name.partition("_")[0], "settings": {"epochs": 4}}
        write_json(folder / "stages" / f"{name}.json", record)
    return folder


def look_at(folder) -> None:
    """Everything that people see of outputs."""
    write_report(folder)
    given = ["--collection", folder.name, "--outputs", str(folder.parent), "--folds", "2"]
    status.status(all_flags("").parse_args(given), given)
    compare.comparison(*compare.read_two(folder, folder))


@pytest.mark.parametrize("text", ODD)
def test_a_record_of_another_kind_is_left_out(folder, capsys, text):
    (folder / RECORD).write_text(text, errors="surrogateescape")
    look_at(folder)
    assert "train_0" not in read_experiment(folder).stages
    warnings = set(capsys.readouterr().err.splitlines())
    assert len(warnings) == 1
    assert warnings.pop().startswith(f"warning: left out: {folder / RECORD}: ")


TABLES = ("fold_1/history.parquet",)


@pytest.mark.parametrize("damage", ["empty", "half", "text"])
@pytest.mark.parametrize("name", TABLES)
def test_a_damaged_table(folder, name, damage):
    path = folder / name
    content = path.read_bytes()
    half = content[: len(content) // 2]
    path.write_bytes({"empty": b"", "half": half, "text": b"PAR1 text"}[damage])
    with pytest.raises(DataError, match=rf"{name}: .* again"):
        write_report(folder)


def test_files_of_other_names_are_no_folds(folder):
    for name in ("fold_²", "fold_", "fold_1_old", "fold_-1"):
        write_json(folder / name / "metrics.json", [])
    assert list(read_experiment(folder).folds) == [0, 1]


def places(value: Any, way: tuple = ()) -> list[tuple]:
    """Where every value of a document stands."""
    below = value.items() if isinstance(value, dict) else []
    below = enumerate(value) if isinstance(value, list) else below
    return [way, *(place for key, part in below for place in places(part, (*way, key)))]


def changed(document: Any, draw: random.Random) -> Any:
    """A document with one value, key or type of it another one."""
    document = copy.deepcopy(document)
    *way, last = draw.choice([place for place in places(document) if place])
    part = document
    for key in way:
        part = part[key]
    if draw.random() < 0.2 and isinstance(part, dict):
        part[draw.choice(["", "fold_0", "-1", "\ud800"])] = part.pop(last)
    else:
        others = [None, True, -1, 10**400, 1.5, float("nan"), "", "text", [], [[]], {}, {"a": {}}]
        part[last] = draw.choice(others)
    return document


@pytest.mark.parametrize("name", DOCUMENTS)
def test_any_other_value_is_told_or_does_no_harm(folder, capsys, name, count=4):
    document, draw = read_json(folder / name), random.Random(0)
    for _ in range(count):
        other = changed(document, draw)
        (folder / name).write_text(json.dumps(other), errors="surrogateescape")
        try:
            look_at(folder)
        except UserError as error:
            assert "\n" not in str(error)
        except Exception:
            print(f"{name}: {json.dumps(other)}", file=sys.stderr)
            raise
