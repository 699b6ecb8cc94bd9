"""What counts as the same result, without TVM."""

from __future__ import annotations

import numpy as np
import pytest

from lib.collect.tvm.agreement import difference, fingerprint, same, varied

NAN, INF = np.nan, np.inf


@pytest.mark.parametrize(
    ("found", "wanted", "off"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0),
        ([1.0, 2.02], [1.0, 2.0], 0.01),
        ([1.0, NAN], [1.0, NAN], 0),
        ([1.0, 2.0], [1.0, NAN], INF),
        ([INF, 1.0], [INF, 1.0], 0),
        ([INF, 1.0], [-INF, 1.0], INF),
        ([1.0], [1.0, 2.0], INF),
        ([True], [False], INF),
        ([0.0], [0.0], 0),
    ],
)
def test_the_largest_difference_over_the_largest_number(found, wanted, off):
    said = difference(np.array(found), np.array(wanted))
    assert said == pytest.approx(off) or (said > 1e6 and off == INF)


def test_nan_is_equal_to_nan_in_the_same_places_alone():
    """Programs whose right result has a NaN are told from those that have it elsewhere."""
    output = np.random.default_rng(0).standard_normal((4, 50)).astype(np.float32)
    for number in (NAN, INF, -INF):
        wanted, other = output.copy(), output.copy()
        wanted[1, 7], other[2, 9] = number, number
        checks = np.array([fingerprint(one) for one in (wanted, wanted * 1.000001, other, output)])
        assert np.isfinite(checks).all()
        assert same(checks, checks[0]).tolist() == [True, True, False, False]
    nothing = np.full((4, 50), NAN)
    assert same(np.array([fingerprint(nothing)]), np.array(fingerprint(nothing))).all()


def test_numbers_that_are_all_the_same_are_replaced_by_positive_ones():
    given = np.zeros((3, 4), np.float32), np.array([1.0, NAN]), np.zeros(5, np.int64), np.ones(1)
    one, *rest = varied(given, 1)
    assert one.dtype == np.float32 and (one > 0).all() and one.std() > 0
    np.testing.assert_array_equal(varied(given, 1)[0], one)
    for found, wanted in zip(rest, given[1:], strict=True):
        assert found is wanted
