"""What TVM's environment wrote is read whole, or told."""

from __future__ import annotations

import numpy as np
import pytest

from lib.files.errors import DataError
from lib.programs.latency.network import read_network
from lib.programs.tensorir.features import WIDTH
from tests.programs.latency.networks import CALLS, SHAPES, write_network


def test_a_network_is_read(tmp_path):
    path = write_network(tmp_path / "a.npz", features=np.ones((15, WIDTH), np.float32))
    found = read_network(path)
    assert (found.name, found.calls) == ("diamond.b1", CALLS)
    assert found.operators == ("op0", "op1", "op2")
    assert found.counts.tolist() == [2, 1, 1]
    assert found.owner.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert found.programs.counts.tolist() == [1, 2, 2] * 3
    assert len(SHAPES) == 3
    assert len(found.programs.features) == len(found.programs.loops) == 15
    assert found.programs.first.tolist() == [0, 3, 6, 9]
    assert found.schedules[4] == f"{4:016x}"


def test_programs_whose_features_cannot_be_used_are_left_out(tmp_path):
    joined = np.ones(9, bool)
    joined[[0, 4]] = False
    found = read_network(write_network(tmp_path / "a.npz", joined=joined))
    assert found.owner.tolist() == [0, 0, 1, 1, 2, 2, 2]
    assert found.programs.counts.tolist() == [2, 2, 1, 2, 1, 2, 2]
    assert "0" * 15 + "4" not in found.schedules
    whole = read_network(write_network(tmp_path / "b.npz")).programs
    assert np.array_equal(found.programs.features[:4], whole.features[1:5])
    assert np.array_equal(found.programs.loops[4:], whole.loops[[5, *range(8, 15)]])


CALL = {"task": 0, "after": [], "reads": [], "writes": 0}
THREE = [{**CALL, "task": k} for k in range(3)]


@pytest.mark.parametrize(
    ("about", "arrays", "said"),
    [
        ({"calls": []}, {}, "calls: found none"),
        ({"calls": [CALL]}, {}, "calls: found other tasks, expected all of 0 to 2"),
        ({"calls": [{**CALL, "task": k, "after": [k]} for k in range(3)]}, {}, "waits for itself"),
        ({"calls": [*THREE, {**CALL, "writes": -1}]}, {}, "expected pairs of a number and bytes"),
        ({"network": 3}, {}, "network: found 3, expected text"),
        ({}, {"owner": np.zeros(9, np.int32)}, "owner: found a task without a program"),
    ],
)
def test_what_cannot_be_is_told(tmp_path, about, arrays, said):
    path = write_network(tmp_path / "a.npz", about=about, **arrays)
    with pytest.raises(DataError, match=said) as error:
        read_network(path)
    assert str(error.value).startswith(f"{path}: ")


def test_what_is_no_such_file_is_told(tmp_path):
    with pytest.raises(DataError, match=r"npz: found .*, expected a network as lib.collect.tvm"):
        read_network(tmp_path / "missing.npz")
    path = tmp_path / "a.npz"
    content = write_network(path).read_bytes()
    for spoilt in (b"", b"PK\x03\x04", content[: len(content) // 2], content[:-30]):
        path.write_bytes(spoilt)
        with pytest.raises(DataError, match=r"npz: found .*, expected a network as"):
            read_network(path)
    np.savez(path, about=np.array([{}], dtype=object))  # a pickle inside
    with pytest.raises(DataError, match=r"npz: found"):
        read_network(path)
