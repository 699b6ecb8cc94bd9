"""What caches have lost, against a cache of single bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.programs.latency import memory
from lib.programs.latency.memory import (
    FROM_MEMORY,
    FROM_SHARED,
    Traffic,
    found_seconds,
    lost_bytes,
    reading_seconds,
)

CALLS = st.lists(
    st.builds(
        Traffic,
        st.dictionaries(st.integers(0, 4), st.integers(1, 6), max_size=3),
        st.integers(0, 4),
    ),
    min_size=1,
    max_size=7,
)


def test_weights_that_fit_are_read_once_and_others_each_time():
    calls = [Traffic({k: 100}, 10) for k in range(4)]
    assert lost_bytes(calls, 440) == [0, 0, 0, 0]
    assert lost_bytes(calls, 439) == [100] * 4  # what was used longest ago goes first
    assert lost_bytes([Traffic({0: 100}, 10)] * 4, 150) == [0] * 4


def test_a_call_that_fills_the_cache_alone_waited_when_it_was_alone():
    assert lost_bytes([Traffic({0: 90}), Traffic({1: 200})], 100) == [90, 0]


@given(CALLS, st.integers(1, 40))
def test_no_more_is_lost_than_is_read_and_nothing_of_a_network_that_fits(calls, size):
    lost = lost_bytes(calls, size)
    assert all(0 <= one <= sum(call.reads.values()) for one, call in zip(lost, calls, strict=True))
    sizes = {one: max(c.reads.get(one, 0) for c in calls) for c in calls for one in c.reads}
    if sum(sizes.values()) + sum(call.writes for call in calls) <= size:
        assert not any(lost)


def test_weights_of_the_step_before_are_found_and_no_others():
    calls = [Traffic({0: 300, 1: 100}), Traffic({0: 300}), Traffic({2: 900}), Traffic({0: 300})]
    saved = 300 * (1 / FROM_MEMORY - 1 / FROM_SHARED)
    assert found_seconds(calls, 400) == pytest.approx((0, saved, 0, 0))
    assert found_seconds(calls, 1200) == pytest.approx((0, saved, 0, saved))
    assert found_seconds(calls, 399) == (0, 0, 0, 0)


def test_each_level_that_has_lost_something_takes_its_time(monkeypatch):
    calls = [Traffic({k: 600}) for k in range(3)]
    monkeypatch.setattr(memory, "CACHES", ((1000, 100.0), (1500, 50.0), (5000, 1.0)))
    assert reading_seconds(calls) == pytest.approx([6 + 12] * 3)
