"""How many rounds a program wants."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from lib.collect.xla.enough import AT_ONCE, mean_ceiling, missing_rounds

SEARCH = np.repeat([0, 1], 20)


def timed(rounds: int, noise: float) -> np.ndarray:
    """(40, rounds) ns of two searches, whose true times lie 1 % apart."""
    generator = np.random.default_rng(rounds)
    true = 1e6 * (1 + 0.01 * np.arange(20))
    return (np.tile(true, 2)[:, None] * generator.normal(1, noise, (40, rounds))).astype(np.int64)


@given(st.integers(1, 40), st.integers(4, 40), st.integers(0, 64), st.floats(-1, 1))
def test_steps_end_at_what_is_asked_for(done, rounds, most, least):
    wanted = SimpleNamespace(rounds=rounds, most_rounds=most, ceiling=least)
    while missing := missing_rounds(timed(done, 0.02), SEARCH, wanted):
        assert 0 < missing <= AT_ONCE
        assert done < rounds or mean_ceiling(timed(done, 0.02), SEARCH) < least
        done += missing
    assert done >= rounds
    assert done >= most or mean_ceiling(timed(done, 0.02), SEARCH) >= least
