"""Figures show what they are given, in its order; text cannot break out of them."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.ranking.measures import LAYOUTS, TILES
from lib.report import figures
from tests.report.builders import graph_row
from tests.report.drawn import marks, numbers, texts


@settings(deadline=None, max_examples=10)
@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=8), st.booleans())
def test_a_curve_is_inside_its_figure(values, log):
    frame = pl.DataFrame({"epoch": range(1, len(values) + 1), "loss": values})
    figure = figures.learning_curve({0: frame}, "loss", "loss", log)
    assert all(-1 <= place <= max(figures.PANEL) + 1 for place in numbers(figure))


def test_a_history_without_the_column_has_no_curve():
    frame = pl.DataFrame({"epoch": [1, 2], "loss": [None, float("nan")]})
    assert figures.learning_curve({0: frame}, "loss", "loss") is None
    assert figures.learning_curve({0: frame}, "other", "other") is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-0.25, "−0.25"),
        (1500, "1,500"),
        (1e-4, "10⁻⁴"),
        (-2e6, "−2·10⁶"),
        (7.5e-4, "7.5·10⁻⁴"),
    ],
)
def test_labels_of_ticks(value, text):
    assert figures.number_text(value) == text


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


def test_many_graphs_are_sampled_from_best_to_worst():
    rows = {f"g{i:03}": graph_row(i / 300) for i in range(300)}
    shown = [text for text in texts(figures.by_graph(rows, LAYOUTS, most=5)) if text in rows]
    assert (shown[0], shown[-1], len(shown)) == ("g299", "g000", 5)


def test_a_large_cloud_is_thinned():
    scores, runtimes = np.arange(50_000.0), np.arange(1.0, 50_001.0)
    figure = figures.rank_against_runtime(scores, runtimes, "g")
    assert 0 < len(marks(figure, "c0")) <= figures.POINTS


def test_the_same_numbers_give_the_same_bytes_and_colours_are_the_page_s():
    one, other = (figures.by_graph({"g": graph_row(0.5)}, LAYOUTS, 1) for _ in range(2))
    assert one == other
    assert "style=" not in one and "20" + "26-" not in one and "var(--c0)" in one


def test_lower_can_be_better():
    slowdown = next(one for one in TILES.metrics if one.key == "top_1_slowdown")
    rows = {"a": {"top_1_slowdown": 0.5}, "b": {"top_1_slowdown": 0.1}}
    assert figures.ranked(rows, slowdown) == ["b", "a"]
    assert slowdown.text(-0.123).replace("\N{NO-BREAK SPACE}", " ") == "−12.3 %"
