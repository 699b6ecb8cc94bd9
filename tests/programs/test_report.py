"""Figures and tables of predicted latencies."""

from __future__ import annotations

import numpy as np
import polars as pl

from lib.programs.report import against, group_table
from lib.report.figures import MODEL
from tests.report.drawn import marks


def rows(predicted: np.ndarray, measured: np.ndarray) -> pl.DataFrame:
    return pl.DataFrame({"prediction": predicted, "latency": measured})


def test_a_right_prediction_lies_on_the_line():
    times = np.geomspace(1e-5, 1e-2, 9)
    x, y = np.array(marks(against(rows(times, times)), MODEL)).T
    slopes = np.diff(y) / np.diff(x)
    assert len(x) == 9 and np.allclose(slopes, slopes[0], rtol=0.05) and slopes[0] < 0


def test_a_group_that_lacks_a_number_has_a_dash():
    groups = {"all": {"all": {"pairs": 12.0, "mape": 0.25}}, "device": {"cpu": {"pairs": 3.0}}}
    rows = group_table(groups).rows
    assert rows[0][:2] == ["all", "12"] and "25.0" in rows[0][2] and rows[0][5] == "–"
    assert rows[1][:3] == ["cpu", "3", "–"]
