"""CDMPP+: what it reads, and how leaves add up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from lib.models.common.build import network_for
from lib.programs.models.cdmpp import DEVICE_FEATURES, ProgramBatch
from lib.programs.models.cdmpp import LOOP_FEATURES as LOOPS
from lib.programs.models.cdmpp_plus import NEVER, READ, THRESHOLDS, CdmppPlus, Thresholds, log_work
from lib.programs.pooled import pooled
from lib.programs.settings import ProgramPlusSettings
from lib.programs.tensorir.features import FEATURES
from tests.programs.models.test_cdmpp import batch

TINY = ProgramPlusSettings("programs-cpu", channels=16)


@pytest.fixture(scope="module")
def network() -> CdmppPlus:
    torch.manual_seed(0)
    made = network_for(TINY).eval()
    leaves = torch.rand(99, 164) * 20, torch.rand(99, LOOPS) * 20
    made.fit(*leaves, torch.full((33,), 3), torch.rand(33, 2))
    return made


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
        torch.zeros(1, DEVICE_FEATURES),
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
    made.first.weight.data.zero_()  # nothing is read but the work
    one = batch(2, leaves=1)
    more = one.features.clone()
    column = FEATURES.index("float_mul")
    numbers = torch.exp2(more) - 1
    extra = torch.expm1(log_work(more, made.operations, made.loops)) + 1
    more[..., column] = torch.log2(1 + numbers[..., column] + extra)
    with torch.inference_mode():
        found = made(replace(one, features=more)) - made(one)
    torch.testing.assert_close(found, torch.full_like(found, np.log(2)), rtol=1e-2, atol=1e-2)


def test_a_threshold_says_on_which_side_a_number_is():
    rows = torch.zeros(8, READ)
    rows[:, 0] = torch.arange(8.0)
    rows[4:, 5] = 1.0
    made = Thresholds()
    made.fit(rows)
    edges = {(int(c), float(e)) for c, e in zip(made.column, made.edge, strict=True) if e < NEVER}
    assert edges == {(5, 0.0), *((0, float(k)) for k in range(7))}
    found = made(rows)
    assert found.shape == (8, THRESHOLDS) and set(found.unique().tolist()) == {0.0, 1.0}
    assert found.sum(1).tolist() == [sum(row[c] > e for c, e in edges) for row in rows]


def test_a_leaf_that_does_nothing_adds_nothing():
    """Without a layer leaves do not read each other."""
    torch.manual_seed(0)
    made = network_for(replace(TINY, layers=0)).eval()
    one = batch(2, leaves=2)
    features = one.features.clone()
    features[:, 1] = 0.0  # no operations
    features[:, 0, FEATURES.index("float_mad")] = 40.0
    two = replace(one, features=features)
    names = ("features", "position", "loops")
    single = replace(two, **{name: getattr(two, name)[:, :1] for name in names})
    with torch.inference_mode():
        torch.testing.assert_close(made(two), made(single), rtol=1e-4, atol=1e-4)
