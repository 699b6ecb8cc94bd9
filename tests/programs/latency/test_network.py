"""What TVM's environment wrote is read whole, or told."""

from __future__ import annotations

import numpy as np

from lib.programs.latency.network import read_network
from lib.programs.tensorir.features import WIDTH
from tests.programs.latency.networks import CALLS, SHAPES, write_network


def test_a_network_is_read(tmp_path):
    path = write_network(tmp_path / "a.npz", features=np.ones((15, WIDTH), np.float32))
    found = read_network(path)
    assert (found.name, found.calls) == ("diamond.b1", CALLS)
    assert found.operators == ("op0", "op1", "op2")
    assert found.counts.tolist() == [2, 1, 1]
    assert found.programs.task.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert found.programs.counts.tolist() == [1, 2, 2] * 3
    assert len(SHAPES) == 3
    assert len(found.programs.features) == len(found.programs.loops) == 15
    assert found.programs.first.tolist() == [0, 3, 6, 9]
    assert found.schedules[4] == f"{4:016x}"


def test_programs_whose_features_cannot_be_used_are_left_out(tmp_path):
    joined = np.ones(9, bool)
    joined[[0, 4]] = False
    found = read_network(write_network(tmp_path / "a.npz", joined=joined))
    assert found.programs.task.tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert found.programs.counts.tolist() == [2, 2, 1, 2, 1, 2, 2]
    assert "0" * 15 + "4" not in found.schedules
    whole = read_network(write_network(tmp_path / "b.npz")).programs
    assert np.array_equal(found.programs.features[:4], whole.features[1:5])
    assert np.array_equal(found.programs.loops[4:], whole.loops[[5, *range(8, 15)]])
