"""Figures and tables of predicted latencies."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.programs.report import BINS, against, errors, group_table
from lib.report.figures import MODEL, PANEL
from tests.report.drawn import marks, numbers

TIMES = st.lists(st.tuples(st.floats(1e-7, 10), st.floats(1e-7, 10)), min_size=1, max_size=60).map(
    lambda pairs: np.array(pairs).T
)


@settings(max_examples=10, deadline=None)
@given(times=TIMES)
def test_figures_hold_all_that_they_show(times):
    for figure in (against(*times), errors(*times)):
        assert all(-1 <= one <= max(PANEL) + 1 for one in numbers(figure))


def test_a_right_prediction_lies_on_the_line():
    times = np.geomspace(1e-5, 1e-2, 9)
    x, y = np.array(marks(against(times, times), MODEL)).T
    slopes = np.diff(y) / np.diff(x)
    assert len(x) == 9 and np.allclose(slopes, slopes[0], rtol=0.05) and slopes[0] < 0


def test_errors_are_shown_by_tenths_of_the_programs():
    measured = np.geomspace(1e-5, 1e-2, 200)
    dots = np.array(marks(errors(measured * 1.25, measured), MODEL))
    assert len(dots) == BINS and np.allclose(dots[:, 1], dots[0, 1])


def test_a_group_that_lacks_a_number_has_a_dash():
    groups = {"all": {"all": {"pairs": 12.0, "mape": 0.25}}, "device": {"cpu": {"pairs": 3.0}}}
    rows = group_table(groups).rows
    assert rows[0][:2] == ["all", "12"] and "25.0" in rows[0][2] and rows[0][5] == "–"
    assert rows[1][:3] == ["cpu", "3", "–"]
