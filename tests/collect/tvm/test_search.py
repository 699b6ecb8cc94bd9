"""The half of a search that has TVM, and the tuning database that it keeps.

``VENV-collect-programs/bin/python -m pytest tests/collect/tvm`` runs these, once pytest and
hypothesis are installed there.
"""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("tvm", reason="needs TVM, see lib/collect/tvm/requirements.txt")

from lib.collect.tvm import search as half
from lib.collect.tvm.compiler import Sampler
from lib.collect.tvm.database import RECORDS, TuningDatabase
from lib.collect.tvm.extract import relax_module
from lib.collect.tvm.messages import receive, send
from lib.collect.tvm.whole import graph_of, named

MINE = """
import torch

def network(batch=2):
    inner = torch.nn.Linear(64, 128), torch.nn.GELU(), torch.nn.Linear(128, 32)
    return torch.nn.Sequential(*inner), (torch.randn(batch, 64),)
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory) -> str:
    """A network of one's own, by the name that it is asked for."""
    path = tmp_path_factory.mktemp("mine") / "mine.py"
    path.write_text(MINE)
    return f"{path}:network"


@pytest.fixture(scope="module")
def task(mine):
    return graph_of(relax_module(named(mine, None))).tasks[0]


def test_measurements_are_kept_in_their_order(task, tmp_path):
    database = TuningDatabase(tmp_path, "avx2")
    assert database.measured(task) == []
    for schedule, seconds in zip(Sampler(task, 1).draw(3), (3.0, 1.0, np.nan), strict=True):
        database.add(task, schedule, seconds)
    np.testing.assert_array_equal(database.measured(task), [3.0, 1.0, np.nan])
    assert [seconds for _, seconds in database.programs(task)] == [1.0, 3.0]


def test_a_line_that_was_cut_short_is_left_out(task, tmp_path):
    database = TuningDatabase(tmp_path, "avx2")
    for schedule, seconds in zip(Sampler(task, 1).draw(2), (3.0, 1.0), strict=True):
        database.add(task, schedule, seconds)
    path = tmp_path / RECORDS
    path.write_bytes(path.read_bytes()[:-30])
    again = TuningDatabase(tmp_path, "avx2")
    assert again.measured(task) == [3.0]
    again.add(task, Sampler(task, 2).draw(1)[0], 2.0)
    assert TuningDatabase(tmp_path, "avx2").measured(task) == [3.0, 2.0]


def run(monkeypatch, mine: str, folder: Path, budget: int) -> list[tuple[dict, dict]]:
    """A search; what it says. It is answered that all programs are equally fast."""
    heard = []
    reading, writing = io.BytesIO(), io.BytesIO()

    def tell(self, kind, about, arrays):
        send(writing, {"kind": kind, "task": self.task, **about}, arrays)
        writing.seek(0)
        heard.append(receive(writing))
        writing.seek(0)
        writing.truncate()
        return {"logs": np.zeros(len(arrays.get("joined", ())))}

    monkeypatch.setattr(half.Talk, "tell", tell)
    words = [str(folder), mine, "--budget", str(budget), "--core", "0", "--device", "avx2"]
    monkeypatch.setattr(sys, "argv", ["search", *words])
    monkeypatch.setattr(half.sys, "stdin", SimpleNamespace(buffer=reading))
    monkeypatch.setattr(half.os, "dup2", lambda *_: None)
    half.main()
    return heard


def test_a_search_measures_its_budget_and_goes_on(monkeypatch, mine, tmp_path):
    first = run(monkeypatch, mine, tmp_path, 8)
    kinds = [about["kind"] for about, _ in first]
    assert kinds[0] == "plan" and kinds[-1] == "whole" and kinds.count("begin") == 2
    for kind, count in (("begin", 0), ("round", 8)):
        for about, arrays in first:
            if about["kind"] == kind:
                assert len(arrays["seconds"]) == count
    again = run(monkeypatch, mine, tmp_path, 16)
    begins = {a["task"]: x["seconds"] for a, x in again if a["kind"] == "begin"}
    rounds = {a["task"]: x["seconds"] for a, x in again if a["kind"] == "round"}
    before = {a["task"]: x["seconds"] for a, x in first if a["kind"] == "round"}
    for name in begins:
        np.testing.assert_array_equal(begins[name], before[name])
        assert len(rounds[name]) == 8
    whole = first[-1][0]
    assert 0 < whole["seconds"] < 2 * whole["unscheduled"]


def test_programs_that_compute_something_else_do_not_count():
    wanted = np.array([1.0, 0.1])
    checks = np.array([[1.0, 0.1], [1.1, 0.1], [np.nan, np.nan]])
    assert half.same(checks, wanted).tolist() == [True, False, False]
