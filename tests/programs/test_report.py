"""Figures and tables of predicted latencies."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.programs.report import BINS, against, errors, group_table
from lib.report.svg import Figure

TIMES = st.lists(st.tuples(st.floats(1e-7, 10), st.floats(1e-7, 10)), min_size=1, max_size=60).map(
    lambda pairs: np.array(pairs).T
)


def numbers(figure: Figure) -> list[float]:
    """Every coordinate that a figure has."""
    text = str(figure.render())
    assert "nan" not in text.lower() and "inf" not in text.lower()
    return [float(one) for one in re.findall(r'(?:cx|cy|x1|x2|y1|y2)="([-\d.]+)"', text)]


@settings(max_examples=20)
@given(times=TIMES)
def test_figures_hold_all_that_they_show(times):
    for figure in (against(*times), errors(*times)):
        assert all(-1 <= one <= max(figure.width, figure.height) + 1 for one in numbers(figure))


def test_a_right_prediction_lies_on_the_line():
    times = np.geomspace(1e-5, 1e-2, 9)
    figure = against(times, times)
    dots = re.findall(r'<circle[^>]*cx="([\d.]+)" cy="([\d.]+)"', str(figure.render()))
    x, y = np.array(dots, float).T
    slopes = np.diff(y) / np.diff(x)
    assert len(dots) == 9 and np.allclose(slopes, slopes[0], rtol=0.05) and slopes[0] < 0


def test_errors_are_shown_by_tenths_of_the_programs():
    measured = np.geomspace(1e-5, 1e-2, 200)
    text = str(errors(measured * 1.25, measured).render())
    assert text.count("<circle") == BINS and text.count("median 25.0%") == BINS


def test_a_group_that_lacks_a_number_has_a_dash():
    groups = {"all": {"all": {"pairs": 12.0, "mape": 0.25}}, "device": {"cpu": {"pairs": 3.0}}}
    rows = group_table(groups).rows
    assert rows[0][:2] == ["all", "12"] and "25.0" in rows[0][2] and rows[0][5] == "–"
    assert rows[1][:3] == ["cpu", "3", "–"]
