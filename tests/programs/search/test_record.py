"""What a search has found, and how it is told."""

from __future__ import annotations

import json

import numpy as np

from lib.programs.messages import OURS
from lib.programs.search.record import SearchRecord, TaskSearch, as_table, summary, warning

NAN = float("nan")
TASK = TaskSearch("0a" * 8, 3, "conv2d", 1e-3, [NAN, 4e-4, 5e-4, NAN, 2e-4])
OTHER = TaskSearch("0b" * 8, 2, "softmax", 1e-3, [1e-4])


def test_the_best_so_far():
    np.testing.assert_array_equal(TASK.best(), [np.inf, 4e-4, 4e-4, 4e-4, 2e-4])
    assert TASK.fastest == 2e-4
    assert TaskSearch("0a", 1, "x", 1e-3, []).fastest == 1e-3
    assert TaskSearch("0a", 1, "x", 1e-3, [2e-3, NAN]).fastest == 1e-3  # which is deployed
    assert TaskSearch("0a", 1, "x", 1e-3, [NAN]).fastest == 1e-3


def test_the_table_and_the_line():
    times = {OURS: 2e-3, "PyTorch": 5e-3}
    record = SearchRecord("net", "avx2", "predictor", 5, [TASK, OTHER], times, 3e-7)
    assert [row.split()[-2:] for row in as_table(record.tasks).splitlines()[1:]] == [
        ["0.2", "75.0%"],
        ["0.1", "25.0%"],
    ]
    assert summary(record) == (
        "search: net on avx2: programs 0.8 ms; the network 2 ms, off by 3e-07; "
        "PyTorch 5 ms, 2.50 times as long"
    )
    alone = SearchRecord("net", "avx2", "predictor", 5, [TASK])
    assert summary(alone) == "search: net on avx2: programs 0.6 ms"


def test_discarded_programs_are_counted_and_tasks_that_lost_all_are_named():
    lost = TaskSearch("0b" * 8, 1, "conv2d_sqrt", 1e-3, [NAN, NAN])
    unmeasured = TaskSearch("0c" * 8, 1, "relu", 1e-3, [])
    head, *rows = as_table([TASK, lost, unmeasured]).splitlines()
    assert head.split()[2:4] == ["measured", "discarded"]
    assert [row.split()[3:5] for row in rows] == [["5", "2"], ["2", "2"], ["0", "0"]]
    assert "discarded" not in as_table([unmeasured])
    said = "all measured programs of conv2d_sqrt 0b0b0b0b were discarded: they do not run in time"
    assert said in warning([TASK, lost, unmeasured]) and warning([TASK, unmeasured]) == ""


def test_what_is_kept_is_json():
    record = SearchRecord("net", "avx2", "predictor", 5, [TASK, TaskSearch("0b" * 8, 1)])
    first, second = json.loads(json.dumps(record.as_json(), allow_nan=False))["tasks"]
    assert first["seconds"] == [None, 4e-4, 5e-4, None, 2e-4] and second["unscheduled"] is None
