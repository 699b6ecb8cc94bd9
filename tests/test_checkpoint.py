"""Checkpoints: what goes in comes out, and nothing else is believed."""

from __future__ import annotations

import pickle

import pytest
import torch

from lib import checkpoint
from lib.errors import DataError

TENSORS = {
    "matrix": torch.arange(6.0).reshape(2, 3).T,  # not contiguous
    "step": torch.tensor(7.0),
    "half": torch.ones(2, dtype=torch.bfloat16),
    "double": torch.tensor([1e300], dtype=torch.float64),
    "count": torch.tensor([2**40]),
    "mask": torch.tensor([True, False]),
    "empty": torch.zeros(0, 4),
}
ABOUT = {"tau": 0.25, "settings": {"epochs": 3, "ä": None}, "list": [1, "x"]}


def test_round_trip(tmp_path):
    path = tmp_path / "new" / "model.safetensors"
    checkpoint.save(path, TENSORS, ABOUT)
    tensors, about = checkpoint.load(path)
    assert about == ABOUT
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


def test_the_same_content_gives_the_same_bytes(tmp_path):
    checkpoint.save(tmp_path / "a", TENSORS, ABOUT)
    checkpoint.save(tmp_path / "b", TENSORS, dict(reversed(ABOUT.items())))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_parameters_can_be_saved_and_replaced(tmp_path):
    path = tmp_path / "model"
    checkpoint.save(path, torch.nn.Linear(2, 2).state_dict(), 1)
    checkpoint.save(path, {"w": torch.nn.Parameter(torch.ones(2))}, 2)
    tensors, about = checkpoint.load(path)
    assert about == 2
    assert torch.equal(tensors["w"], torch.ones(2))


class Harmful:
    """Unpickling it would leave a trace."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_pickle_is_refused_and_not_run(tmp_path):
    path = tmp_path / "model.safetensors"
    path.write_bytes(pickle.dumps(Harmful(tmp_path / "trace")))
    with pytest.raises(DataError, match="checkpoint"):
        checkpoint.load(path)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    "damage", ["missing", "empty", "garbage", "truncated", "torch", "no about"]
)
def test_what_is_no_checkpoint_is_refused(tmp_path, damage):
    path = tmp_path / "model.safetensors"
    checkpoint.save(path, TENSORS, ABOUT)
    if damage == "missing":
        path.unlink()
    elif damage == "torch":
        torch.save(TENSORS, path)
    elif damage == "no about":
        from safetensors.torch import save_file

        save_file({"x": torch.ones(1)}, path)
    else:
        whole = path.read_bytes()
        path.write_bytes({"empty": b"", "garbage": b"x" * 99, "truncated": whole[:-1]}[damage])
    with pytest.raises(DataError, match=r"model\.safetensors"):
        checkpoint.load(path)
