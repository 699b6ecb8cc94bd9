"""CDMPP+: what it reads, and how leaves add up."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lib.models.common.build import network_for
from lib.programs.models.cdmpp import DEVICE_FEATURES, ProgramBatch
from lib.programs.models.cdmpp import LOOP_FEATURES as LOOPS
from lib.programs.models.cdmpp_plus import NEVER, READ, THRESHOLDS, Thresholds, log_work
from lib.programs.pooled import pooled
from lib.programs.settings import ProgramPlusSettings
from lib.programs.tensorir.features import FEATURES

TINY = ProgramPlusSettings("programs-cpu", channels=16)


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
