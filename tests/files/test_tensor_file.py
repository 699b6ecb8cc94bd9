"""Checkpoints: what goes in comes out, and nothing else is believed."""

from __future__ import annotations

import pickle

import pytest
import torch

from lib.files import tensor_file
from lib.files.errors import DataError

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
    tensor_file.save(path, TENSORS, ABOUT)
    tensors, about = tensor_file.load(path)
    assert about == ABOUT
    assert tensors.keys() == TENSORS.keys()
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert torch.equal(tensors[name], tensor)


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
        tensor_file.load(path)
    assert not (tmp_path / "trace").exists()


@pytest.mark.parametrize(
    "damage", ["missing", "empty", "garbage", "truncated", "torch", "no about"]
)
def test_what_is_no_checkpoint_is_refused(tmp_path, damage):
    path = tmp_path / "model.safetensors"
    tensor_file.save(path, TENSORS, ABOUT)
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
        tensor_file.load(path)


def test_what_a_file_is_about_without_its_tensors(tmp_path):
    tensor_file.save(tmp_path / "state", TENSORS, {**ABOUT, "numbers": {10: "a", 9: "b"}})
    expected = {**ABOUT, "numbers": {"10": "a", "9": "b"}}
    assert tensor_file.read_metadata(tmp_path / "state") == expected
    assert tensor_file.load(tmp_path / "state")[1] == expected


def linear(**changes):
    weights = {"weight": torch.ones(2, 3), "bias": torch.zeros(2)} | changes
    return {name: tensor for name, tensor in weights.items() if tensor is not None}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bias": None}, "bias: found none, expected it"),
        ({"other": torch.ones(1)}, "other: found it, expected no such weights"),
        ({"weight": torch.ones(3, 2)}, "weight: found 3 x 2 float32, expected 2 x 3 float32"),
        ({"weight": torch.ones(2, 3).half()}, "weight: found 2 x 3 float16"),
        ({"bias": torch.tensor([0, torch.nan])}, "bias: found a value that is not finite"),
    ],
)
def test_weights_of_another_network(changes, message):
    with pytest.raises(DataError, match=rf"^last\.safetensors: {message}.*; train again"):
        tensor_file.load_into(torch.nn.Linear(3, 2), "last.safetensors", linear(**changes))
