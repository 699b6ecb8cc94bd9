"""What a network's name means, without TVM."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import nn

from lib.collect.tvm.networks import named
from lib.collect.tvm.reasons import one_line_of
from lib.collect.tvm.sources import from_torch
from lib.files.errors import UserError
from tests.stages import REPOSITORY

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

def several(batch=64):
    return network(batch)

def half():
    return nn.Linear(3, 4).half(), (torch.zeros(2, 3).half(),)

def chooses():
    return Chooses(), (torch.ones(2, 3),)

def wrong():
    return nn.Linear(3, 4)

def ending():
    raise SystemExit(3)
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    path = tmp_path_factory.mktemp("mine") / "mine.py"
    path.write_text(MINE)
    return path


@pytest.mark.skipif(find_spec("torchvision") is None, reason="is where TVM is")
def test_a_network_of_a_library_is_made_without_a_download():
    module, (images,) = named("torchvision:squeezenet1_1", 3).build()
    assert images.shape == (3, 3, 224, 224) and module.eval()(images).shape == (3, 1000)
    module, (tokens,) = named("transformers:distilbert/distilbert-base-uncased", 2).build()
    assert tokens.shape == (2, 128) and module.eval()(tokens).shape == (2, 128, 768)


@pytest.mark.skipif(find_spec("torchvision") is None, reason="is where TVM is")
def test_a_file_may_import_the_libraries(tmp_path):
    """In a process of its own, where nobody has declared torchvision's operators."""
    text = """
import torch
from transformers import BertConfig, BertModel
def network():
    return BertModel(BertConfig(num_hidden_layers=1)), (torch.ones(1, 8, dtype=torch.int64),)
"""
    (tmp_path / "net.py").write_text(text)
    build = (
        f"from {named.__module__} import named; named('{tmp_path}/net.py:network', None).build()"
    )
    subprocess.run([sys.executable, "-c", build], check=True, cwd=REPOSITORY)


def test_a_function_builds_a_network_for_a_batch(mine):
    module, (example,) = named(f"{mine}:network", 5).build()
    assert isinstance(module, nn.Linear) and example.shape == (5, 3)
    sizes = (
        named(f"{mine}:{function}", batch).build()[1][0].shape[0]
        for function, batch in (("network", None), ("several", None), ("several", 1))
    )
    assert [*sizes] == [1, 64, 1]


@pytest.mark.parametrize(
    ("name", "batch", "said"),
    [
        ("transformers:bert-bas", 1, "none of that name; the nearest is transformers:bert-base-u"),
        ("gpt", 1, "network 'gpt': there is none of that name; the nearest is transformers:gpt2; "),
        ("missing.py:network", 1, "missing.py: no such file; a network is torchvision:resnet18, "),
        ("{mine}", 1, "mine.py: of which function? {mine}:network, {mine}:several, {mine}:half,"),
        ("{mine}.txt", 1, "mine.py.txt: a network is torchvision:resnet18, or transformers:ber"),
        ("{mine}.onnx:f", 1, "mine.py.onnx:f: a network is torchvision:resnet18, or transformers:"),
        ("{mine}:nothing", 1, "nothing: AttributeError"),
        ("{mine}:wrong", 1, "wrong: must return a torch.nn.Module and a tuple of inputs"),
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


def test_a_shape_is_for_onnx_files_alone(mine):
    with pytest.raises(
        UserError, match=r"SHAPE=n=1: is for ONNX files; .*mine\.py:network has its"
    ):
        named(f"{mine}:network", 1, "n=1")


@pytest.fixture
def exported(tmp_path):
    """A network for two examples at a time, as torch writes it."""
    path = tmp_path / "linear.pt2"
    torch.export.save(torch.export.export(nn.Linear(3, 4), (torch.ones(2, 3),)), path)
    return path


def test_an_exported_network_has_its_example_with_it(exported):
    program, (example,) = named(str(exported), None).build()
    assert torch.equal(example, torch.ones(2, 3))
    assert program.module()(example).shape == (2, 4)
    with pytest.raises(UserError, match=r"a batch of 2, names .*, expected 5, or BATCH=2"):
        named(str(exported), 5).build()
    exported.write_bytes(exported.read_bytes()[:500])
    with pytest.raises(UserError, match=r"linear\.pt2: torch\.export cannot read it: ") as error:
        named(str(exported), None).build()
    assert len(str(error.value).splitlines()) == 1


HOSTILE = {
    "an expression": ("expr_str", "Integer(__import__('os').system('touch {ran}'))+Symbol('s77')"),
    "a method": ("expr_str", "Symbol('s77').__class__(1)"),
    "an operator": ("target", "torch.os.system"),
    "a file": ("target", "torch.ops.aten.from_file.default"),
    "a name": ("name", "x=__import__('os').system('touch {ran}')"),
    "nested inputs": ("in_spec", '[1, {{"type": "x", "context": "{{\\"__enum__\\": 1}}"}}]'),
    "a pickled object": ("path_name", "opaque_obj_0"),
}


def changed(value, key: str, text: str):
    """The first text of that key in JSON, exchanged."""
    if isinstance(value, list):
        return [changed(part, key, text) for part in value]
    if not isinstance(value, dict):
        return value
    strings = isinstance(value.get(key), str)
    return {
        name: text if strings and name == key else changed(part, key, text)
        for name, part in value.items()
    }


def rewritten(path: Path, change) -> None:
    """An archive whose parts are changed."""
    with zipfile.ZipFile(path) as file:
        parts = {name: change(name, file.read(name)) for name in file.namelist()}
    with zipfile.ZipFile(path, "w") as file:
        for name, part in parts.items():
            file.writestr(name, part)


@pytest.fixture
def dynamic(tmp_path):
    """An archive of a network for any number of examples."""
    path = tmp_path / "dynamic.pt2"
    shapes = ({0: torch.export.Dim("b")},)
    program = torch.export.export(nn.Linear(3, 4), (torch.ones(2, 3),), dynamic_shapes=shapes)
    torch.export.save(program, path)
    return path


@pytest.mark.parametrize("kind", HOSTILE)
def test_nothing_in_an_archive_runs(dynamic, tmp_path, kind):
    key, text = HOSTILE[kind]
    text = text.format(ran=tmp_path / "ran")

    def change(name: str, part: bytes) -> bytes:
        if not name.endswith(".json"):
            return part
        return json.dumps(changed(json.loads(part), key, text)).encode()

    rewritten(dynamic, change)
    with pytest.raises(UserError, match="expected no code, which is not run"):
        named(str(dynamic), None).build()
    assert not (tmp_path / "ran").exists()


def test_conditions_of_an_archive_are_not_run(dynamic, tmp_path):
    """They are of its inputs, and Python that torch would make a function of."""
    code = f"__import__('os').system('touch {tmp_path / 'ran'}') == 0"

    def change(name: str, part: bytes) -> bytes:
        if not name.endswith("models/model.json"):
            return part
        return json.dumps(json.loads(part) | {"guards_code": [code]}).encode()

    rewritten(dynamic, change)
    program, inputs = named(str(dynamic), None).build()
    program.module()(*inputs)
    assert not (tmp_path / "ran").exists()


class Touches:
    """What makes a file when it is unpickled."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_nothing_of_an_archive_is_unpickled(exported, tmp_path):
    """Its example inputs are what torch would unpickle, whatever they are."""
    content = io.BytesIO()
    torch.save(((Touches(tmp_path / "touched"),), {}), content)
    rewritten(exported, lambda name, x: content.getvalue() if "sample_inputs" in name else x)
    with pytest.raises(UserError, match=r"torch\.export cannot read it"):
        named(str(exported), None).build()
    assert not (tmp_path / "touched").exists()


@pytest.mark.parametrize(("batch", "rows"), [(None, 2), (5, 5)])
def test_an_archive_for_any_batch_is_of_the_batch_that_is_asked_for(dynamic, batch, rows):
    program, inputs = named(str(dynamic), batch).build()
    assert inputs[0].shape == (rows, 3) and not program.range_constraints
    assert program.module()(*inputs).shape == (rows, 4)


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
