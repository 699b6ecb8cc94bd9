"""What a search has measured becomes measurements of a dataset; skipped where TVM is not."""

from __future__ import annotations

import sys

import numpy as np
import pytest

pytest.importorskip("tvm", reason="needs TVM, see lib/collect/tvm/requirements.txt")

from lib.collect.tvm import raw, recorded
from lib.collect.tvm.asked import named
from lib.collect.tvm.compiler import Sampler, hash_of
from lib.collect.tvm.database import TuningDatabase
from lib.collect.tvm.graph import graph_of
from lib.collect.tvm.importing import imported
from lib.files.errors import DataError
from tests.collect.tvm.test_search import MINE


@pytest.fixture
def mine(tmp_path) -> str:
    (tmp_path / "mine.py").write_text(MINE)
    return f"{tmp_path / 'mine.py'}:network"


def test_programs_that_ran_are_kept_and_the_rest_is_counted(mine, tmp_path, monkeypatch, capsys):
    one, other = graph_of(imported(named(mine, None), deployed=True)).tasks[:2]
    stranger = graph_of(imported(named("mlp.w128_l3.b64", None), deployed=True)).tasks[0]
    database = TuningDatabase(tmp_path / "database", "avx2")
    fast, slow, broken = Sampler(one, 1).draw(3)
    for task, schedule, seconds in (
        (one, slow, 2e-3),
        (one, broken, np.nan),
        (one, fast, 1e-3),
        (one, fast, 3e-3),
        (stranger, Sampler(stranger, 1).draw(1)[0], 5e-3),
    ):
        database.add(task, schedule, seconds)
    elsewhere = TuningDatabase(tmp_path / "database", "sse2")
    elsewhere.add(other, Sampler(other, 1).draw(1)[0], 1e-3)
    words = [mine, str(tmp_path / "database"), str(tmp_path / "work"), "--device", "avx2"]
    monkeypatch.setattr(sys, "argv", ["recorded", *words])
    recorded.main()
    said = capsys.readouterr().out
    assert "recorded: 3 taken, 1 failed, 2 of other tasks or targets, of " in said
    found = raw.read(raw.path(tmp_path / "work", raw.FOUND, 0, hash_of(one)))
    assert found.about["devices"] == [["avx2", "core-avx2"]] and found.about["threads"] == 1
    assert found.fastest.tolist() == [[1e-3, 2e-3]]
    assert len({*found.hash}) == 2 and found.arrays["joined"].all()
    assert not raw.path(tmp_path / "work", raw.FOUND, 0, hash_of(other)).exists()


def test_what_is_no_database_of_the_network_is_told(mine, tmp_path):
    with pytest.raises(DataError, match="found nothing, expected a tuning database"):
        recorded.recorded(mine, None, tmp_path, "avx2", tmp_path / "work")
    task = graph_of(imported(named(mine, None), deployed=True)).tasks[0]
    TuningDatabase(tmp_path, "sse2").add(task, Sampler(task, 1).draw(1)[0], 1e-3)
    with pytest.raises(DataError, match="for avx2, expected some that run"):
        recorded.recorded(mine, None, tmp_path, "avx2", tmp_path / "work")


def test_a_file_that_has_changed_is_read_anew(mine, tmp_path):
    for batch in (2, 4):
        task = graph_of(imported(named(mine, batch), deployed=True)).tasks[0]
        TuningDatabase(tmp_path / str(batch), "avx2").add(task, Sampler(task, 1).draw(1)[0], 1e-3)
        found = recorded.recorded(mine, batch, tmp_path / str(batch), "avx2", tmp_path / "work")
        assert found["taken"] == 1
