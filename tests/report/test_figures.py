"""Figures show what they are given, in its order; text cannot break out of them."""

from __future__ import annotations

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.ranking.measures import LAYOUTS
from lib.report import figures
from tests.report.builders import graph_row
from tests.report.drawn import marks, numbers, texts


@settings(deadline=None, max_examples=10)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8), st.booleans())
def test_a_curve_is_inside_its_figure(values, log):
    frame = pl.DataFrame({"epoch": range(1, len(values) + 1), "loss": values})
    figure = figures.learning_curve({0: frame}, "loss", "loss", log)
    assert all(-1 <= place <= max(figures.PANEL) + 1 for place in numbers(figure))


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=60), st.integers(5, 40))
def test_shortened_names_keep_their_ends(name, most):
    short = figures.shortened(name, most)
    assert len(short) <= max(most, 1)
    if len(name) <= most:
        assert short == name
    else:
        assert name.startswith(short.split("…")[0])


def test_graphs_stand_best_first_with_baseline_and_ceiling():
    rows = {"low": graph_row(0.1), "high": graph_row(0.9), "middle": graph_row(0.5)}
    figure = figures.by_graph(rows, LAYOUTS, most=60)
    phone = figures.by_graph(rows, LAYOUTS, most=60, narrow=True)
    assert [text for text in texts(phone) if text in rows] == ["high", "middle", "low"]
    assert [text for text in texts(figure) if text in rows] == ["high", "middle", "low"]
    dots = [x for x, _ in marks(figure, "c0")]
    assert len(dots) == 3 and dots == sorted(dots, reverse=True)
    assert len({x for x, _ in marks(figure, "c1")}) == len({x for x, _ in marks(figure, "c2")}) == 1


def test_a_large_cloud_is_thinned():
    scores, runtimes = np.arange(50_000.0), np.arange(1.0, 50_001.0)
    figure = figures.rank_against_runtime(scores, runtimes, "g")
    assert 0 < len(marks(figure, "c0")) <= figures.POINTS


def test_the_same_numbers_give_the_same_bytes_and_colours_are_the_page_s():
    one, other = (figures.by_graph({"g": graph_row(0.5)}, LAYOUTS, 1) for _ in range(2))
    assert one == other
    assert "style=" not in one and "20" + "26-" not in one and "var(--c0)" in one
