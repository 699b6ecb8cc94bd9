"""What a network's name means, without TVM."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from lib.collect.tvm.asked import named
from lib.collect.tvm.sources import from_torch, one_line_of
from lib.files.errors import UserError

MINE = """
from __future__ import annotations
from dataclasses import dataclass

import torch
from torch import nn

@dataclass(kw_only=True)  # which looks its module up
class Sizes:
    inputs: int = 3

class Chooses(nn.Module):
    def forward(self, x):
        raise RuntimeError("Could not guard on data-dependent expression Eq(u0, 1)")

def network(batch):
    return nn.Linear(Sizes().inputs, 4), (torch.zeros(batch, 3),)

def half():
    return nn.Linear(3, 4).half(), (torch.zeros(2, 3).half(),)

def chooses():
    return Chooses(), (torch.ones(2, 3),)

def wrong():
    return nn.Linear(3, 4)

def failing():
    raise RuntimeError("no weights")

def ending():
    raise SystemExit(3)
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    path = tmp_path_factory.mktemp("mine") / "mine.py"
    path.write_text(MINE)
    return path


@pytest.mark.parametrize(
    ("name", "batch", "found"),
    [
        ("resnet18", 1, "resnet18.w64_s224.b1"),
        ("resnet18", None, "resnet18.w64_s224.b1"),
        ("resnet18", 8, "resnet18.w40_s56.b8"),
        ("resnet18.w32_s64", 1, "resnet18.w32_s64.b1"),
        ("resnet18.w32_s64.b1", None, "resnet18.w32_s64.b1"),
    ],
)
def test_a_name_means_the_largest_of_its_family_and_batch(name, batch, found):
    assert named(name, batch).name == found


def test_a_function_builds_a_network_for_a_batch(mine):
    module, (example,) = named(f"{mine}:network", 5).build()
    assert isinstance(module, nn.Linear) and example.shape == (5, 3)


@pytest.mark.parametrize(
    ("name", "batch", "said"),
    [
        ("resnet18", 3, "network 'resnet18' of batch 3: not among resnet18.w24_s96.b4, resnet18.w"),
        ("resnet18.w32_s64.b1", 2, "of batch 2: not among resnet18.w32_s64.b1"),
        ("resnet", 1, "network 'resnet' of batch 1: not among python -m lib.collect.tvm --list"),
        ("missing.py:network", 1, "missing.py: no such file; a network is a name, or file.py:fun"),
        ("missing.py", 1, "missing.py: no such file; a network is a name, or file.py:function, or"),
        ("missing.onnx", 1, "missing.onnx: no such file"),
        ("{mine}", 1, "mine.py: of which function? {mine}:network, {mine}:half, {mine}:chooses"),
        ("{mine}.txt", 1, "mine.py.txt: a network is a name, or file.py:function, or file.onnx"),
        ("{mine}.onnx:f", 1, "mine.py.onnx:f: a network is a name, or file.py:function, or file.o"),
        ("{mine}:nothing", 1, "nothing: AttributeError"),
        ("{mine}:wrong", 1, "wrong: must return a torch.nn.Module and a tuple of inputs"),
        ("{mine}:failing", 1, "failing: RuntimeError: no weights"),
        ("{mine}:ending", 1, "ending: SystemExit: 3"),
    ],
)
def test_what_is_no_network_is_told(mine, name, batch, said):
    for ending in (".txt", ".onnx"):
        mine.with_name(f"{mine.name}{ending}").touch()
    with pytest.raises(UserError) as error:
        named(name.format(mine=mine), batch).build()
    assert said.format(mine=mine) in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.fixture
def exported(tmp_path):
    """A network for two examples at a time, as torch writes it."""
    path = tmp_path / "linear.pt2"
    torch.export.save(torch.export.export(nn.Linear(3, 4), (torch.ones(2, 3),)), path)
    return path


@pytest.mark.parametrize("batch", [None, 2])
def test_an_exported_network_has_its_example_with_it(exported, batch):
    program, (example,) = named(str(exported), batch).build()
    assert torch.equal(example, torch.ones(2, 3))
    assert program.module()(example).shape == (2, 4)


def test_an_exported_network_of_another_batch_or_that_is_none_is_told(exported):
    with pytest.raises(UserError, match=r"a batch of 2, names .*, expected 5, or BATCH=2"):
        named(str(exported), 5).build()
    exported.write_bytes(exported.read_bytes()[:500])
    with pytest.raises(UserError, match=r"linear\.pt2: torch\.export cannot read it: ") as error:
        named(str(exported), None).build()
    assert len(str(error.value).splitlines()) == 1


class Touches:
    """What makes a file when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_nothing_of_an_exported_network_is_unpickled(exported, tmp_path):
    """Its example inputs are what torch would unpickle, whatever they are."""
    with zipfile.ZipFile(exported) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    (examples,) = (name for name in parts if "sample_inputs" in name)
    content = io.BytesIO()
    torch.save(((Touches(tmp_path / "touched"),), {}), content)
    with zipfile.ZipFile(exported, "w") as file:
        for name, part in (parts | {examples: content.getvalue()}).items():
            file.writestr(name, part)
    with pytest.raises(UserError, match=r"torch\.export cannot read it"):
        named(str(exported), None).build()
    assert not (tmp_path / "touched").exists()


def test_half_precision_is_told(mine):
    network = named(f"{mine}:half", None)
    with pytest.raises(UserError, match="half: float16: programs are of float32"):
        from_torch(network.name, *network.build())


def test_what_depends_on_values_is_told_with_its_line(mine):
    """In torch's words, which name no line of the user's."""
    module, inputs = named(f"{mine}:chooses", None).build()
    with pytest.raises(UserError) as error, one_line_of("x", "torch.export cannot read it"):
        module(*inputs)
    said = f"x: torch.export cannot read it: {mine}:14: what it runs depends on values of tensors"
    assert str(error.value).startswith(said) and len(str(error.value).splitlines()) == 1
