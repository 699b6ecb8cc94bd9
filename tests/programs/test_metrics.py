"""Errors of predicted latencies, and the order within tasks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from lib.programs.metrics import (
    Predicted,
    mape,
    measure_groups,
    measure_task,
    median_error,
    rmse,
)
from lib.programs.task import CachedTask
from lib.ranking.measures import measures_of

SECONDS = np.array([1e-3, 2e-3, 4e-3, 1e-3])
PREDICTED = np.array([2e-3, 1e-3, 4e-3, 1e-3])


def task(seconds: np.ndarray, device: np.ndarray, again: np.ndarray | None = None) -> CachedTask:
    count = len(seconds)
    return CachedTask(
        name="conv2d_add.0",
        split="train",
        operators="conv2d_add",
        networks=("a.b",),
        features=np.zeros((count, 164), np.float16),
        position=np.zeros(count, np.int32),
        loops=np.zeros((count, 20), np.float16),
        counts=np.ones(count, np.int32),
        original=np.arange(count),
        program=np.arange(count),
        owner=np.arange(count),
        device=device.astype(np.uint8),
        seconds=seconds.astype(np.float32),
        again=np.full(count, np.nan) if again is None else again,
    )


def test_errors_are_as_defined():
    assert mape(PREDICTED, SECONDS) == pytest.approx((1 + 0.5) / 4)
    assert median_error(PREDICTED, SECONDS) == pytest.approx(0.25)
    assert rmse(PREDICTED, SECONDS) == pytest.approx(np.sqrt((1 + 1) / 4))


def test_the_order_is_that_of_a_tasks_programs_on_one_device():
    rng = np.random.default_rng(0)
    device = np.repeat([0, 1], 10)
    seconds, predicted = rng.uniform(1, 2, 20) * (1 + 9 * device), rng.uniform(1, 2, 20)
    found = measure_task(predicted, seconds, task(seconds, device))
    expected = [
        stats.kendalltau(predicted[own], seconds[own])[0] for own in (slice(10), slice(10, 20))
    ]
    assert found["tau"] == pytest.approx(np.mean(expected))
    slow = [
        seconds[own][predicted[own].argmin()] / seconds[own].min() - 1
        for own in (slice(10), slice(10, 20))
    ]
    assert found["top_1_slowdown"] == pytest.approx(np.mean(slow))


def test_the_tasks_mean_knows_the_devices_and_nothing_of_schedules():
    seconds, device = np.array([1.0, 4.0, 10.0, 10.0]), np.array([0, 0, 1, 1])
    found = measure_task(seconds, seconds, task(seconds, device))
    assert found["mape"] == 0
    assert found["task_mean_mape"] == pytest.approx((1 + 0.5 + 0 + 0) / 4)


def test_the_noise_is_over_what_was_measured_twice():
    again = np.array([1.1e-3, np.nan, np.nan, 0.8e-3])
    found = measure_task(PREDICTED, SECONDS, task(SECONDS, np.zeros(4), again))
    assert found["noise_mape"] == pytest.approx(0.15, rel=1e-5)
    assert "noise_mape" not in measure_task(PREDICTED, SECONDS, task(SECONDS, np.zeros(4)))


def test_groups_are_over_pairs():
    one = Predicted(task(SECONDS, np.array([0, 0, 1, 1])), PREDICTED)
    two = Predicted(task(SECONDS[:1], np.zeros(1)), SECONDS[:1] * 3)
    found = measure_groups([one, two], ["cpu.a", "cpu.b"])
    assert found["all"]["all"]["pairs"] == 5
    assert found["all"]["all"]["mape"] == pytest.approx((1 + 0.5 + 0 + 0 + 2) / 5, rel=1e-6)
    assert {name: own["pairs"] for name, own in found["device"].items()} == {"cpu.a": 3, "cpu.b": 2}
    assert found["operator"]["conv2d"] == found["all"]["all"]


def test_every_number_that_is_shown_is_measured():
    kind, rng = measures_of("programs-cpu"), np.random.default_rng(0)
    seconds = rng.uniform(1, 2, 8)
    one = task(seconds, np.zeros(8), seconds * 1.1)
    found = measure_task(np.exp(rng.normal(size=8)), seconds, one)
    assert {one.key for one in kind.described} == set(found)
    assert set(kind.columns) <= set(kind.described)
