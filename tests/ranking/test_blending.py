"""Scales that scores of several networks are brought to before they are averaged."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from lib.ranking.blending import METHODS, blend, blend_frames, places_of
from lib.settings.base import BLENDINGS
from tests.scoring.test_ensemble import frame

SCORES = st.lists(st.integers(-1000, 1000).map(lambda v: v / 8), min_size=1, max_size=20)


def test_the_settings_name_every_method():
    assert set(METHODS) == set(BLENDINGS)


@pytest.mark.parametrize("method", METHODS)
@given(SCORES)
def test_a_scale_keeps_the_order_and_ties(method, values):
    scores = np.array(values)
    scaled = METHODS[method](scores)
    assert scaled.shape == scores.shape
    assert np.isfinite(scaled).all()
    assert np.array_equal(rankdata(scaled.round(9)), rankdata(scores))


def test_known_values():
    scores = np.array([3.0, 1.0, 1.0, 7.0])
    assert METHODS["mean"](scores).tolist() == [3, 1, 1, 7]
    scaled = METHODS["standardized"](scores)
    assert (scaled.mean(), scaled.std()) == pytest.approx((0, 1))
    assert METHODS["standardized"](np.ones(3)).tolist() == [0, 0, 0]


def test_blending_scales_each_graph_of_each_fold_by_itself():
    folds = [frame({"a": [0, 10], "b": [5, 4, 3]}), frame({"a": [1, 0], "b": [0, 100, 50]})]
    blended = blend_frames(folds, "standardized")["score"].to_list()
    third = 1.5**0.5  # of three scores evenly apart, the outer ones' deviation
    assert blended == pytest.approx([0, 0, 0, third / 2, -third / 2])


@pytest.mark.parametrize("method", METHODS)
@settings(deadline=None, max_examples=20)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(0, 99))
def test_arrays_and_frames_are_blended_alike(method, folds, count, seed):
    random = np.random.default_rng(seed)
    scores = {name: random.normal(size=(folds, count)).round(1) for name in "ab"}
    frames = [frame({name: own[fold] for name, own in scores.items()}) for fold in range(folds)]
    blended = blend_frames(frames, method)
    for name, own in scores.items():
        found = blended.filter(graph=name)["score"].to_numpy()
        assert found == pytest.approx(blend(list(own), method))


def test_places_break_ties_by_layouts_set_then_by_position():
    scores = np.array([0.5, -1, 0.5, 0, 0.5 + 1e-15])
    assert places_of(scores, np.array([2, 0, 2, 3, 1])).tolist() == [3, 0, 4, 1, 2]
    assert places_of(np.zeros(3), np.zeros(3)).tolist() == [0, 1, 2]
