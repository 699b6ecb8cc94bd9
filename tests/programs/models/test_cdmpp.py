"""CDMPP's predictor: what a prediction depends on."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.programs.models.cdmpp import (
    BEYOND,
    LEAF_FEATURES,
    MILLISECONDS,
    Cdmpp,
    LabelTransform,
    LeafCountLayers,
    LeafEncoder,
)
from lib.programs.settings import TRANSFORMS, ProgramSettings


def latencies(seed: int, count: int = 500) -> np.ndarray:
    """Seconds with the long tail that measured ones have."""
    return np.exp(np.random.default_rng(seed).normal(-8.5, 1.5, count))


def fitted(name: str, seconds: np.ndarray) -> LabelTransform:
    made = LabelTransform(name)
    made.fit(seconds)
    return made


@pytest.mark.parametrize("name", TRANSFORMS)
@settings(max_examples=10)
@given(seed=st.integers(0, 1000), count=st.integers(2, 300))
def test_the_way_back_leads_back(name, seed, count):
    seconds = latencies(seed, count)
    made = fitted(name, seconds)
    low, high = np.quantile(seconds, [0.01, 0.99])
    inside = torch.from_numpy(seconds[(seconds >= low) & (seconds <= high)])
    torch.testing.assert_close(made.log_seconds(made(inside)), inside.log(), rtol=1e-6, atol=1e-6)


def test_box_and_coxs_transform_is_that_of_scikit_learn():
    from sklearn.preprocessing import PowerTransformer  # takes a second to import

    seconds = latencies(3)
    theirs = PowerTransformer("box-cox").fit_transform(seconds[:, None] * MILLISECONDS)[:, 0]
    ours = fitted("box-cox", seconds)(torch.from_numpy(seconds)).numpy()
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_any_label_means_some_time(name):
    made = fitted(name, latencies(2))
    seconds = made.log_seconds(torch.tensor([-1e3, -30.0, 0.0, 30.0, 1e3])).exp()
    assert (seconds.diff() >= 0).all()
    low, high = latencies(2).min() / BEYOND, latencies(2).max() * BEYOND
    assert low * 0.999 <= seconds[0] and seconds[-1] <= high * 1.001


def build(settings: ProgramSettings) -> Cdmpp:
    torch.manual_seed(0)
    made = Cdmpp(settings).eval()
    made.labels.fit(np.geomspace(1e-5, 1e-2, 50))
    made.encoder.standardize.fit(torch.rand(99, LEAF_FEATURES) * 20)
    return made


@settings(max_examples=15)
@given(first=st.lists(st.integers(0, 500), min_size=2, max_size=6, unique=True))
def test_the_order_of_a_tree_survives(first):
    encoder = LeafEncoder(8, 1, 2, 8, 0.0, True)
    found = encoder.encoding(torch.tensor([first]))[0]
    angle = np.array(first)[:, None] / 10000 ** (np.arange(0, LEAF_FEATURES, 2) / LEAF_FEATURES)
    np.testing.assert_allclose(found[:, 0::2].numpy(), np.sin(angle), atol=1e-6)  # section 4.2
    np.testing.assert_allclose(found[:, 1::2].numpy(), np.cos(angle), atol=1e-6)
    distance = torch.cdist(found, found) + 9 * torch.eye(len(first))
    assert distance.min() > 1e-2  # places that differ never look the same


def test_numbers_of_leaves_that_were_not_seen_get_the_nearest():
    layers = LeafCountLayers(4, 3, most=5)
    layers.fit(torch.tensor([2, 2, 4, 9]))
    assert [layers.nearest(k) for k in range(1, 8)] == [2, 2, 2, 4, 4, 4, 4]
    x = torch.rand(2, 7, 4)
    assert layers(x).shape == (2, 3)
    assert torch.equal(layers(x[:, :2]), layers.layers[1](x[:, :2].flatten(1)))


def test_the_papers_network_has_the_papers_number_of_weights():
    network = build(ProgramSettings("programs-cpu", paper=True, most_leaves=5))
    fives = network.counts.layers[4]
    count = sum(one.numel() for one in network.parameters())
    others = sum(one.numel() for one in network.counts.parameters())
    mine = count - others + sum(one.numel() for one in fives.parameters())
    assert mine == pytest.approx(13.8e6, rel=0.01)
    x = torch.rand(2, 5, LEAF_FEATURES)
    assert network.counts(x).shape == (2, 69)
