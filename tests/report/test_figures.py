"""Figures show what they are given, in its order; text cannot break out of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lib.ranking.measures import LAYOUTS
from lib.report import figures
from tests.report.builders import graph_row
from tests.report.drawn import marks, texts


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
    assert figure == figures.by_graph(rows, LAYOUTS, most=60)  # to the byte
    assert [text for text in texts(figure) if text in rows] == ["high", "middle", "low"]
    dots = [x for x, _ in marks(figure, figures.MODEL)]
    assert len(dots) == 3 and dots == sorted(dots, reverse=True)
    for colour in (figures.BASELINE, figures.CEILING):
        assert len({x for x, _ in marks(figure, colour)}) == 1
