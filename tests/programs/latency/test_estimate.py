"""From predictions of programs to what is said of a network."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from lib.files.errors import DataError
from lib.programs.latency.error import Error, calls_of, error_of, held_out, of_blend
from lib.programs.latency.estimate import as_json, as_text, costs, estimate
from lib.programs.latency.memory import CACHES, FROM_MEMORY, FROM_SHARED
from lib.programs.latency.network import read_network
from tests.programs.builders import write_root
from tests.programs.latency.networks import write_network

PREDICTED = np.array([3.0, 2, 4, 9, 8, 7, 1, 1, 5]) * 1e-3  # of three programs a task
ERROR = Error(0.8, 1.1, 1.5, 12)


@pytest.fixture
def found(tmp_path):
    network = read_network(write_network(tmp_path / "a.npz"))
    return estimate(network, "cpu.avx2.1t", PREDICTED, ERROR, {f"{1:016x}"})


def test_a_network_runs_the_program_of_each_task_that_is_predicted_fastest(found):
    assert found.fastest.tolist() == [1, 5, 6]
    assert found.timeline.seconds == pytest.approx(2 * 2e-3 + 7e-3 + 1e-3)
    assert [run.node for run in found.timeline.runs] == [0, 1, 2, 3]
    assert found.latency == pytest.approx((9.6e-3, 13.2e-3, 18e-3))


def test_weights_that_the_cache_has_lost_are_waited_for(tmp_path):
    path = write_network(tmp_path / "a.npz")
    calls = [{"task": k, "after": [], "reads": [[k, 1 << 19]], "writes": 0} for k in range(3)]
    network = read_network(write_network(path, about={"calls": calls}))
    took = estimate(network, "cpu", PREDICTED, ERROR, ()).timeline.seconds
    assert took == pytest.approx(10e-3 + 3 * (1 << 19) / CACHES[0][1])
    cold = estimate(network, "cpu", PREDICTED, ERROR, (), warm=False).timeline.seconds
    assert cold == pytest.approx(10e-3)  # what is known of programs has the waiting in it
    calls = [{"task": 0, "after": [], "reads": [[0, size]], "writes": 0} for size in 2 * [1 << 20]]
    steps = read_network(write_network(path, about={"calls": calls}))
    found = estimate(steps, "cpu", PREDICTED, ERROR, (), warm=False).timeline.seconds
    assert found == pytest.approx(4e-3 - (1 << 20) * (1 / FROM_MEMORY - 1 / FROM_SHARED))
    short = estimate(steps, "cpu", PREDICTED / 1e3, ERROR, (), warm=False).timeline.seconds
    assert short == pytest.approx(2e-6 * (1 + FROM_MEMORY / FROM_SHARED))


def test_what_costs_most_comes_first(found):
    rows = costs(found)
    assert [one["operators"] for one in rows] == ["op1", "op0", "op2"]
    assert [one["calls"] for one in rows] == [1, 2, 1]
    assert [one["learned"] for one in rows] == [True, False, False]
    assert rows[1]["schedule"] == f"{1:016x}"
    assert sum(one["share"] for one in rows) == pytest.approx(1, abs=1e-3)
    text = as_text(found).splitlines()
    assert text[-1].startswith("latency: diamond.b1 on cpu.avx2.1t: 13.2 ms (two networks in three")
    assert "9.6 to 18)" in text[-1]
    assert "4 calls of 3 programs, 1 of them of tasks that the predictor has learned" in text[-1]
    told = json.loads(json.dumps(as_json(found)))
    assert (told["seconds"], told["low"], told["high"]) == (0.0132, 0.0096, 0.018)
    assert told["replayed_seconds"] == 0.012
    assert len(told["tasks"]) == 3
    tiny = replace(found, latency=(3e-5, 4e-5, 6e-5))
    assert "0.03 to 0.06, of programs; below 0.05 ms calls count" in as_text(tiny)


def networks(count: int) -> dict[str, dict[str, int]]:
    return {f"net{k}": {"a": 1, "b": 2} for k in range(count)}


def test_the_error_is_measured_over_predicted_of_whole_networks():
    tasks = {"a": (np.ones(3), np.full(3, 2.0)), "b": (np.ones(2), np.full(2, 0.5))}
    found = error_of(tasks, networks(6), 2)
    assert found == Error(1.0, 1.0, 1.0, 6)  # 2 + 2 x 0.5 measured, 1 + 2 predicted
    tasks["b"] = (np.ones(2), np.full(2, 2.0))
    assert error_of(tasks, networks(6), 2) == Error(2.0, 2.0, 2.0, 6)


def test_a_blend_is_short_of_less_than_a_fold():
    error = Error(0.9, 1.1, 1.3, 7)
    assert of_blend(error, 1, 16, True) == of_blend(error, 4, 1, False) == error
    fewer, more = (of_blend(error, folds, 16, False).middle for folds in (2, 4))
    assert 1.0 < more < fewer < of_blend(error, 4, 16, True).middle < 1.1
    assert of_blend(Error(1.0, 1.0, 1.0, 0), 4, 16, True).middle == 1.0  # nothing is known


def test_predictions_of_a_device_are_read_by_task(tmp_path):
    path = tmp_path / "predictions.csv"
    table = {
        "split": ["test", "valid", "valid"],
        "task": ["b", "a", "a"],
        "program": [3, 2, 1],
        "device": ["x", "x", "y"],
        "prediction": [0.9, 1.9, 2.9],
        "latency": [2.0, 3.0, 4.0],
        "in_sums": [1.0, 2.0, 3.0],
    }
    pl.DataFrame(table).write_csv(path)
    found = held_out(path, "x")
    assert {task: (p.tolist(), m.tolist()) for task, (p, m) in found.items()} == {
        "a": ([2.0], [3.0]),
        "b": ([1.0], [2.0]),
    }
    for text in ("", "a,b\n1,2\n", "split,task\n\0"):
        path.write_text(text)
        with pytest.raises(DataError, match=f"{path}: "):
            held_out(path, "x")
    with pytest.raises(DataError, match=r"missing\.csv: csv: found"):
        held_out(tmp_path / "missing.csv", "x")


def test_calls_have_the_names_of_a_caches_tasks(tmp_path):
    found = calls_of(write_root(tmp_path / "root"))
    assert found["net0.w8.b1"] == {
        f"{name}.{k:016x}": 1
        for k, name in enumerate(("conv2d_add_relu", "matmul3_add", "softmax"))
    }
