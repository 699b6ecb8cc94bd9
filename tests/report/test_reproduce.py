"""The papers' tables: their numbers, what each row is here, and runs that end half way."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from lib.files.artifacts import write_json
from lib.report import reproduce
from lib.settings import described
from tests.builders import COLLECTION
from tests.commands import call
from tests.stages import run_make, script
from tests.synthetic import write_collection

TABLES = reproduce.read_tables()
CELLS = {name: reproduce.cells_of(table, None, None) for name, table in TABLES.items()}
OURS = [cell for cells in CELLS.values() for cell in cells]


@pytest.mark.parametrize(
    ("table", "row", "collection", "printed"),
    [
        ("tgraph2", "TGraph", "layout-nlp-default", "0.5628 ± 0.0027"),
        ("tgraph2", "TGraph", "tile-xla", "0.9694 ± 0.0021"),
        ("tgraph3", "- graph edges", "layout-xla-default", "0.3631"),
        ("gst1", "Partitioning", "layout-xla-default", "0.12"),
    ],
)
def test_a_number_is_the_papers(table, row, collection, printed):
    cells = [cell for cell in CELLS[table] if cell.collection == collection]
    assert [cell.paper for cell in cells if cell.row["name"] == row] == [printed]


@pytest.mark.parametrize(
    ("table", "row", "expected"),
    [
        ("tgraph3", "- graph edges", {"edges": False, "channels": 256, "epochs": 1000}),
        ("tgraph3", "- channel-wise self-attention", {"channel_attention": False}),
        ("tgraph3", "- cross-configuration attention", {"cross_attention": False}),
        ("tgraph2", "TGraph", {"model": "tile", "epochs": 17.5, "kernels": 1}),
        ("gst1", "Pooling Model", {"model": "pooling", "epochs": 10}),
        ("cdmpp3", "original Y", {"label_transform": "none", "batch": 600, "split": "random"}),
        ("cdmpp14a", "without PE", {"positional": False}),
    ],
)
def test_a_row_is_trained_as_the_paper_says(table, row, expected):
    cell = [cell for cell in CELLS[table] if cell.row["name"] == row][-1]
    assert described(cell.resolved.settings).items() >= expected.items()


def test_equal_settings_and_no_others_share_a_folder():
    """So that two tables with the same row run it once."""
    chosen = [cell.resolved.settings for cell in OURS]
    folders = {(one.results, str(described(one))) for one in chosen}
    assert len(folders) == len({folder for folder, _ in folders})
    assert len(folders) == len({settings for _, settings in folders}) == 36


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Reproduces a row of a table on a few small graphs, and ends half way if it is told to."""
    write_collection(tmp_path / "data", COLLECTION, train=2, valid=1, test=0, nodes=15)
    table = TABLES["tgraph3"]
    monkeypatch.setattr(
        reproduce, "read_tables", lambda: {"tgraph3": {**table, "rows": table["rows"][3:]}}
    )
    monkeypatch.setenv("ARGS", "--channels 32 --folds-total 2 --permutations 1")

    def run(outputs: str, ends: bool = False) -> tuple[int, str, int]:
        """Exit code, the table, and how many stages were run."""
        worked, places = [], {"DATA": tmp_path / "data", "OUTPUTS": tmp_path / outputs}

        def make(line, env):
            given = dict(word.split("=", 1) for word in line[2:]) | {"FOLDS": 1, "EPOCHS": 1}
            done = run_make("train" if ends else "all", **given, **places, JOBS=1)
            worked.append(done.stdout.count("; wrote"))
            if ends:
                raise KeyboardInterrupt
            return done

        monkeypatch.setattr(reproduce, "subprocess", SimpleNamespace(run=make))
        flags = ["--seeds", 1, "--collection", COLLECTION]
        flags += ["--data", places["DATA"], "--outputs", places["OUTPUTS"]]
        said = call(reproduce.main, "tgraph3", *flags)
        return said.returncode, said.stdout, sum(worked)

    return run


def test_one_that_was_ended_goes_on_to_the_same_table(tiny):
    code, table, stages = tiny("whole")
    assert code == 0 and stages == 3
    assert "* epochs 1, not 750\n" in table and "layout-xla-random" not in table
    assert tiny("ended", ends=True)[0] != 0
    assert tiny("ended") == (0, table, 2)


def test_a_run_that_fails_is_a_line_and_the_others_run(tmp_path):
    """Through the Makefile, which hands its variables down."""
    text = '#!/bin/sh\necho "$* FOLDS=$FOLDS" >> "$0.calls"\nexit 1\n'
    stand_in = script(tmp_path / "make", text)
    of_row = [cell for cell in CELLS["gst1"] if cell.row["name"] == "GST"]
    cell = next(cell for cell in of_row if cell.collection == COLLECTION)
    path = tmp_path / "out" / replace(cell.resolved.settings, **cell.names(0)).results
    earlier = {"validation": {"mean": {"tau": 0.5}}, "settings": {}, "folds": {}}
    write_json(path / "metrics.json", earlier)
    assert cell.number(cell.metrics(2, tmp_path / "out")[0]) == 0.5  # of an earlier run
    given = {"SUBMAKE": stand_in, "JOBS": 3, "FOLDS": 2, "SEEDS": 2, "OUTPUTS": tmp_path / "out"}
    done = run_make("reproduce", TABLE="gst1", ARGS="--heads 2", **given)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
    calls = (tmp_path / "make.calls").read_text().splitlines()
    assert len(calls) == 8 == done.stdout.count(" failed, and says why above")
    named = f"COLLECTION={COLLECTION} MODEL=pooling EXPERIMENT=paper-s1 SEED=1"
    assert calls[5].split() == f"JOBS=3 all {named} ARGS=--heads 2 FOLDS=2".split()
    row = next(line for line in done.stdout.splitlines() if line.startswith("GST   "))
    assert row.split() == ["GST", COLLECTION, "-", "0", "-", "0.11"]
