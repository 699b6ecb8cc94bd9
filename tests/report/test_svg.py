"""Scales map ends to ends, ticks are round and inside, text cannot break out of a figure."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lib.ranking.kinds import LAYOUTS, TILES
from lib.report import figures
from lib.report.svg import Figure, Scale, number, scale_over, shortened
from tests.report.builders import graph_row

FINITE = st.floats(-1e6, 1e6, allow_nan=False)


@settings(deadline=None, max_examples=50)
@given(st.lists(FINITE, min_size=1, max_size=8), st.booleans())
def test_a_scale_holds_its_values(values, log):
    scale = scale_over(values, 10.0, 200.0, log)
    for value in values:
        assert 10 - 1e-6 <= scale(value) <= 200 + 1e-6
    assert scale(scale.low) == pytest.approx(10)
    assert scale(scale.high) == pytest.approx(200)


@settings(deadline=None, max_examples=50)
@given(FINITE, FINITE, st.integers(3, 8))
def test_ticks_are_inside_and_few(low, high, count):
    assume(high - low > 1e-6 * max(1.0, abs(low), abs(high)))
    ticks = Scale(low, high, 0, 1).ticks(count)
    slack = (high - low) * 1e-6
    assert all(low - slack <= tick <= high + slack for tick in ticks)
    assert 1 <= len(ticks) <= 2 * count + 1
    assert ticks == sorted(set(ticks))


def test_ticks_of_a_logarithm_are_powers():
    assert Scale(0.5, 2000, 0, 1, True).ticks() == [1, 10, 100, 1000]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (-0.25, "−0.25"), (1500, "1,500"), (1e-4, "10⁻⁴"), (2e6, "2·10⁶"), (0.005, "0.005")],
)
def test_labels_of_ticks(value, text):
    assert number(value) == text


@settings(deadline=None, max_examples=50)
@given(st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), max_size=20))
def test_any_name_gives_a_well_formed_figure(name):
    figure = Figure(100, 50, name)
    figure.text("label", 1, 2, name)
    figure.dot("mark", 3, 4, title=name)
    root = ElementTree.fromstring(figure.render())
    assert root.get("aria-label") == name
    assert root.find("text").text == (name or None)


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=60), st.integers(5, 40))
def test_shortened_names_keep_their_ends(name, most):
    short = shortened(name, most)
    assert len(short) <= max(most, 1)
    if len(name) <= most:
        assert short == name
    else:
        assert name.startswith(short.split("…")[0])


def test_graphs_stand_best_first_beside_baseline_and_ceiling():
    rows = {"low": graph_row(0.1), "high": graph_row(0.9), "middle": graph_row(0.5)}
    figure = figures.by_graph(rows, LAYOUTS, figures.WIDE, most=60)
    root = ElementTree.fromstring(figure.render())
    labels = [one.text for one in root.iter("text") if one.get("class") == "label"]
    assert labels == ["high", "middle", "low"]
    dots = [float(one.get("cx")) for one in root.iter("circle")]
    assert dots == sorted(dots, reverse=True)
    gaps = [one.get("class") for one in root.iter("line") if one.get("class").startswith("gap")]
    assert gaps == ["gap win", "gap win", "gap loss"]  # the baseline has 0.4
    assert len([one for one in root.iter("rect")]) == 3  # a ceiling each


def test_many_graphs_are_sampled_from_best_to_worst():
    rows = {f"g{i:03}": graph_row(i / 300) for i in range(300)}
    figure = figures.by_graph(rows, LAYOUTS, figures.NARROW, most=5)
    root = ElementTree.fromstring(figure.render())
    labels = [one.text for one in root.iter("text") if one.get("class") == "label"]
    assert (labels[0], labels[-1], len(labels)) == ("g299", "g000", 5)


def test_a_large_cloud_is_thinned():
    scores, runtimes = np.arange(50_000.0), np.arange(1.0, 50_001.0)
    text = figures.rank_against_runtime(scores, runtimes, "g").render()
    assert text.count("<circle") <= figures.POINTS


def test_lower_can_be_better():
    slowdown = next(one for one in TILES.metrics if one.key == "top_1_slowdown")
    rows = {"a": {"top_1_slowdown": 0.5}, "b": {"top_1_slowdown": 0.1}}
    assert figures.ranked(rows, slowdown) == ["b", "a"]
    assert slowdown.text(-0.123).replace("\N{NO-BREAK SPACE}", " ") == "−12.3 %"
