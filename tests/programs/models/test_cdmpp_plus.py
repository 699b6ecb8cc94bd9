"""CDMPP+: what it reads, how leaves add up, and how the blend is fitted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.inputs.input import network_for
from lib.programs.models.cdmpp import LOOP_FEATURES as LOOPS
from lib.programs.models.cdmpp import ProgramBatch
from lib.programs.models.cdmpp_plus import POOLED, CdmppPlus, log_work, pooled
from lib.programs.models.correction import Blend, corrected_rows
from lib.programs.models.trees import Trees
from lib.programs.settings import ProgramPlusSettings
from lib.programs.tensorir.features import FEATURES
from tests.programs.models.test_cdmpp import batch, rows_of

TINY = ProgramPlusSettings("programs-cpu", channels=16, layers=1, heads=2, trees=3, tree_depth=2)


@pytest.fixture(scope="module")
def network() -> CdmppPlus:
    torch.manual_seed(0)
    made = network_for(TINY).eval()
    made.encoder.standardize.fit(torch.rand(99, 164) * 20)
    made.standardize.fit(torch.rand(99, POOLED) * 20)
    made.trees.feature.random_(0, POOLED)
    made.trees.threshold.uniform_(0, 20)
    made.trees.value.normal_()
    made.correction.feature.random_(0, POOLED + 10)
    made.correction.value.normal_()
    return made


@settings(max_examples=15)
@given(order=st.permutations(range(5)), leaves=st.integers(1, 6))
def test_a_batchs_order_changes_nothing(network, order, leaves):
    one, order = batch(1, leaves=leaves), torch.tensor(order)
    moved = rows_of(one, order)
    with torch.inference_mode():
        found, expected = network.log_seconds(moved), network.log_seconds(one)[order]
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_work_is_what_leaves_compute():
    features = torch.zeros(2, 164)
    features[0, FEATURES.index("float_mad")] = np.log2(1 + 100)
    features[:, FEATURES.index("loops_product")] = np.log2(1 + 30)
    made = network_for(TINY)
    found = log_work(features, made.operations, made.loops)
    np.testing.assert_allclose(found, np.log1p([2 * 100 + 15, 15]), rtol=1e-5)


def test_pooled_features_are_those_of_the_last_and_the_dominant_leaf():
    numbers = torch.tensor([[1.0, 8.0], [3.0, 2.0], [5.0, 1.0]])  # of three leaves
    features = torch.zeros(1, 3, 164)
    features[0, :, :2] = torch.log2(1 + numbers)
    work = torch.tensor([[0.0, 4.0, 1.0]])
    one = ProgramBatch(
        features,
        torch.tensor([[2, 5, 9]]),
        torch.arange(3.0 * LOOPS).reshape(1, 3, LOOPS),
        torch.zeros(1, 8),
    )
    row = pooled(one, features, work)[0]
    parts = torch.exp2(row[:328].reshape(2, 164)[:, :2]) - 1
    expected = [[5.0, 1.0], [3.0, 2.0]]
    torch.testing.assert_close(parts, torch.tensor(expected), rtol=1e-4, atol=1e-4)
    assert row[328 : 328 + LOOPS].tolist() == list(range(2 * LOOPS, 3 * LOOPS))  # of the last leaf
    assert row[328 + LOOPS : -3].tolist() == list(range(LOOPS, 2 * LOOPS))  # of the dominant one
    assert row[-3:-1].tolist() == [9, 3]
    assert row[-1] == pytest.approx(np.log(np.exp([0, 4, 1]).sum()), rel=1e-5)


def test_twice_the_work_takes_twice_the_time():
    torch.manual_seed(0)
    made = network_for(TINY).eval()
    made.standardize.factor.zero_()  # nothing is read but the work
    made.encoder.standardize.factor.zero_()
    one = batch(2, leaves=1)
    more = one.features.clone()
    column = FEATURES.index("float_mul")
    numbers = torch.exp2(more) - 1
    extra = torch.expm1(log_work(more, made.operations, made.loops)) + 1
    more[..., column] = torch.log2(1 + numbers[..., column] + extra)
    with torch.inference_mode():
        found = made(replace(one, features=more)) - made(one)
    torch.testing.assert_close(found, torch.full_like(found, np.log(2)), rtol=1e-2, atol=1e-2)


@given(share=st.integers(0, 10), factor=st.floats(-0.4, 0.2), seed=st.integers(0, 50))
@settings(max_examples=15)
def test_the_blend_finds_the_weight_and_factor_that_are_right(share, factor, seed):
    rng = np.random.default_rng(seed)
    one, other = rng.normal(size=(2, 200))
    made = Blend()
    seconds = np.exp(share / 10 * one + (1 - share / 10) * other + factor)
    made.calibrate(one, other, seconds)
    assert float(made.weight) == pytest.approx(share / 10, abs=1e-6)
    assert float(made.shift) == pytest.approx(factor, abs=0.006)


def test_the_factor_is_below_one_where_predictions_are_uncertain():
    noise = np.random.default_rng(0).normal(size=4000)
    made = Blend()
    made.calibrate(np.zeros(4000), np.zeros(4000), np.exp(0.3 * noise))
    assert float(made.shift) < -0.05


def test_a_prediction_is_the_mean_of_two_blends(network):
    one = batch(4)
    network.blends[1].weight.fill_(0.2)
    with torch.inference_mode():
        parts = network(one).double(), network.by_trees(one).double()
        found = [
            each.weight * parts[0] + (1 - each.weight) * parts[1] + each.shift
            for each in network.blends
        ]
        assert not torch.allclose(*found)
        torch.testing.assert_close(network.by_halves(one), torch.stack(found, -1))
        torch.testing.assert_close(network.log_seconds(one), sum(found) / 2)


def test_the_second_stage_adds_to_the_first_what_it_reads_of_it(network):
    one = batch(4)
    with torch.inference_mode():
        rows, work = network.rows(one)
        first = network.trees(rows).reshape(len(work), -1) + work[:, None]
        gain = network.correction(corrected_rows(rows, first, work)).reshape(first.shape)
        assert gain.abs().sum() > 0
        torch.testing.assert_close(network.by_trees(one), first + gain)


def test_a_sum_takes_over_shares_of_others():
    torch.manual_seed(0)
    rows, others, whole = torch.rand(9, 4), [Trees(2, 3) for _ in range(2)], Trees(4, 3)
    for number, other in enumerate(others):
        other.feature.random_(0, 4)
        other.threshold.uniform_()
        other.value.normal_()
        other.base.normal_()
        whole.take(other, 2 * number, 0.5)
    torch.testing.assert_close(whole(rows), sum(one(rows) for one in others) / 2)
