"""What a search has found, and how it is told."""

from __future__ import annotations

import json

import numpy as np

from lib.search.plot import plot_search
from lib.search.record import SearchRecord, TaskSearch, as_table, summary

NAN = float("nan")
TASK = TaskSearch("0a" * 8, 3, "conv2d", 1e-3, [NAN, 4e-4, 5e-4, NAN, 2e-4])


def test_the_best_so_far():
    np.testing.assert_array_equal(TASK.best(), [np.inf, 4e-4, 4e-4, 4e-4, 2e-4])
    assert TASK.fastest == 2e-4
    assert TaskSearch("0a", 1, "x", 1e-3, []).fastest == 1e-3
    assert TaskSearch("0a", 1, "x", 1e-3, [2e-3, NAN]).fastest == 1e-3


def test_the_table_and_the_line():
    record = SearchRecord("net", "avx2", "predictor", 5, [TASK], (5e-3, 2e-3))
    assert "5.0x" in as_table(record.tasks)
    said = summary(record)
    assert "programs 3 ms -> 0.6 ms" in said and "end to end 5 ms -> 2 ms, 2.50x" in said


def test_what_is_kept_is_json_and_the_picture_the_same_each_time(tmp_path):
    record = SearchRecord("net", "avx2", "predictor", 5, [TASK, TaskSearch("0b" * 8, 1)])
    text = json.dumps(record.as_json(), allow_nan=True)
    assert json.loads(text)["tasks"][0]["seconds"] == [None, 4e-4, 5e-4, None, 2e-4]
    for name in ("a.svg", "b.svg"):
        plot_search(tmp_path / name, record)
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "a.svg").stat().st_size > 5000
