"""`make status`: all experiments by score, what is stale and why."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lib.report.status import differences, status
from lib.runs.make import all_flags
from tests.builders import COLLECTION
from tests.report.builders import graph_row, write_outputs
from tests.report.conftest import Finished
from tests.stages import REPOSITORY, TINY_FLAGS, stages_in

PATH = f"{COLLECTION}@tgraph+trial"


def rows(said: str) -> dict[str, list[str]]:
    """Return the words of each experiment's line, by its folder."""
    lines = [re.split("  +", line.replace("\N{NO-BREAK SPACE}", " ")) for line in said.splitlines()]
    return {line[0]: line[1:] for line in lines if line[0].startswith(COLLECTION)}


def state(said: str) -> str:
    """Return what is said of the finished experiment, without the settings that it was given."""
    return rows(said)[PATH][-1].partition("; ")[2]


def table(outputs: Path, *flags: str) -> str:
    command = ["--collection", COLLECTION, "--outputs", str(outputs), *flags]
    return status(all_flags("").parse_args(command), command)


def test_experiments_stand_by_score_with_what_they_were_given(tmp_path):
    for name, tau in (("b", 0.3), ("a", 0.6), ("c", 0.1)):
        own = {f"g{i}": graph_row(tau) for i in range(3)}
        write_outputs(tmp_path / f"{COLLECTION}@tgraph+{name}", own, own if name == "b" else None)
    (tmp_path / "wandb").mkdir()
    said = table(tmp_path, "--model", "tgraph", "--experiment", "d")
    head, *_ = said.splitlines()
    assert re.split("  +", head) == [
        f"{COLLECTION}: Kendall's τ",
        "model",
        "folds",
        "validation",
        "test",
    ]
    found = rows(said)
    assert [name[-1] for name in found if "@" in name] == ["a", "b", "c"]
    assert found[f"{COLLECTION}@tgraph+b"][:4] == ["tgraph", "2", "0.300 ± 0.000", "0.300 ± 0.000"]
    assert found[f"{COLLECTION}@tgraph+c"][:4] == ["tgraph", "2", "0.100 ± 0.000", "–"]
    assert said.endswith(
        f"{tmp_path}/{COLLECTION}@tgraph+d: nothing is built yet; "
        f"make all COLLECTION={COLLECTION} MODEL=tgraph EXPERIMENT=d builds it"
    )


def test_a_damaged_experiment_does_not_hide_the_others(tmp_path, capsys):
    for name in "ab":
        write_outputs(tmp_path / f"{COLLECTION}+{name}", {"g": graph_row(0.5)})
    path = tmp_path / f"{COLLECTION}+a" / "metrics.json"
    path.write_text("{")
    assert list(rows(table(tmp_path)))[1:] == [f"{COLLECTION}+b"]
    assert capsys.readouterr().err.startswith(f"warning: left out: {path}: ")


def test_other_data_other_code_and_other_settings_are_named():
    before = {"data": "0" * 64, "settings": {"weights": "best", "folds": [0, 1]}, "measured": "x"}
    now = {"data": "1" * 64, "settings": {"weights": "last", "folds": [0]}, "trained": "x"}
    old = {f"lib/{name}.py": "1" for name in "abcdef"}
    assert list(differences({**before, "code": old}, {**now, "code": {"lib/a.py": "1"}})) == [
        "code: lib/b.py, lib/c.py, lib/d.py and 2 more",
        "other data",
        "other measured",
        "folds 2 → 1, weights best → last",
    ]


def test_libraries_that_take_seconds_are_not_imported():
    asked = (
        "import sys, lib.report.status; print({'scipy', 'torch', 'matplotlib'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", asked], cwd=REPOSITORY, capture_output=True)
    assert done.stdout == b"set()\n"


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ([], "up to date"),
        (["--epochs", "7"], "train: epochs 3 → 7"),
        (["--permutations", "4"], "infer: permutations 2 → 4"),
        (["--folds", "1"], "ensemble: folds 2 → 1"),
        (["--keep-going"], "preprocess: keep_going False → True"),
    ],
)
def test_a_changed_flag_is_named(finished, flags, why):
    given = ["--data", str(finished.data), "--experiment", "trial", *TINY_FLAGS]
    given += ["--epochs", "3", "--permutations", "2", "--folds", "2", *flags]
    said = table(finished.outputs, *given)
    assert state(said).endswith(why)
    assert ("epochs 7" if "--epochs" in flags else "epochs 3") in rows(said)[PATH][-1]


@pytest.fixture
def copy(finished, tmp_path) -> Finished:
    """Outputs of our own."""
    outputs = tmp_path / "outputs"
    shutil.copytree(finished.outputs, outputs, ignore=shutil.ignore_patterns("wandb"))
    return Finished(finished.data, outputs, outputs / finished.folder.name, finished.said)


def change(copy: Finished, what: str) -> str:
    """Change something that results depend on; return what is to be said of it."""
    raw = next(copy.data.rglob("train_0*.npz"))
    match what:
        case "a raw file was touched":
            raw.touch()
        case "a raw file is another of its size":
            raw.write_bytes(raw.read_bytes()[:-1] + b"x")
            return f"preprocess: raw files changed: train/{raw.name}"
    return "up to date"


# Files that were written back have another change time, which make looks at.
WHAT = ("a raw file was touched", "a raw file is another of its size")


@pytest.mark.parametrize("what", WHAT)
def test_what_is_called_stale_is_what_works_again_and_asking_changes_nothing(copy, what):
    raw = next(copy.data.rglob("train_0*.npz"))
    content, times = raw.read_bytes(), raw.stat()
    try:
        why = change(copy, what)
        before = sorted((p, p.stat().st_mtime_ns) for p in copy.outputs.rglob("*"))
        said = copy.make("status")
        assert state(said).endswith(why) and "\x1b[" not in said
        assert sorted((p, p.stat().st_mtime_ns) for p in copy.outputs.rglob("*")) == before
        # A stage that make starts only looks, where times alone are others.
        looks = what == "a raw file was touched"
        assert bool(stages_in(copy.make("-n", "all"))) == (why != "up to date" or looks)
    finally:  # it is every test's
        raw.write_bytes(content)
        os.utime(raw, ns=(times.st_atime_ns, times.st_mtime_ns))
