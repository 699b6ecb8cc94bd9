"""The network that somebody asks for by a name.

    torchvision:resnet18             a classifier of torchvision, on images of the size it is for
    transformers:bert-base-uncased   one of :data:`TRANSFORMERS`, of Hugging Face's transformers
    file.py:function                 returns a torch.nn.Module and a tuple of example inputs
    file.onnx, file.pt2              an ONNX file, or what torch.export.save writes

Networks of the two libraries have random weights: nothing is downloaded.
"""

from __future__ import annotations

import ast
import difflib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch

from lib.collect.tvm.sources import read_exported
from lib.files.errors import UserError

Built = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]
KINDS = (
    "a network is torchvision:resnet18, or transformers:bert-base-uncased, or file.py:function, "
    "or file.onnx, or file.pt2"
)
BERT_LARGE = {
    **{"hidden_size": 1024, "intermediate_size": 4096},
    **{"num_hidden_layers": 24, "num_attention_heads": 16},
}
ROBERTA = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}
# Checkpoints by their names on the hub, without the organization: the module and class of each,
# and what its configuration has in place of the defaults of transformers.
TRANSFORMERS: dict[str, tuple[str, dict[str, Any]]] = {
    "bert-base-uncased": ("bert.BertModel", {}),
    "bert-large-uncased": ("bert.BertModel", BERT_LARGE),
    "distilbert-base-uncased": ("distilbert.DistilBertModel", {}),
    "roberta-base": ("roberta.RobertaModel", ROBERTA),
    "electra-small-discriminator": ("electra.ElectraModel", {}),
    "gpt2": ("gpt2.GPT2Model", {}),
    "opt-125m": ("opt.OPTModel", {}),
    "vit-base-patch16-224": ("vit.ViTModel", {}),
    "clip-vit-base-patch32": ("clip.CLIPVisionModel", {}),
    "whisper-tiny": ("whisper.WhisperEncoder", {}),
}
TOKENS = 128  # of an example's text
NMS = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


@dataclass(frozen=True)
class Network:
    """A network by its name, and how to make it and its example inputs."""

    name: str
    build: Callable[[], Built]


def named(name: str, batch: int | None, shape: str = "") -> Network:
    """Return the network that a name means.

    Args:
        name: as the module's text has it.
        batch: examples at a time; ``None`` for what a file or function says by itself, or 1.
        shape: free dimensions of an ONNX file, such as ``sequence_length=128,batch_size=1``.

    Raises:
        UserError: there is no such network; the line says which name is the nearest.
    """
    if shape and Path(name).suffix != ".onnx":
        raise UserError(f"SHAPE={shape}: is for ONNX files; {name} has its example inputs")
    declare_operators()
    library, colon, short = name.partition(":")
    if colon and library in LIBRARIES:
        names, build = LIBRARIES[library]
        short = short.rpartition("/")[2]  # the hub has names below an organization's
        if short not in names():
            raise _unknown(name, short, [library])
        return Network(name, partial(build, short, batch or 1))
    path, colon, function = name.rpartition(":")
    if not colon:
        path, function = name, ""
    if not (colon or Path(path).suffix or Path(path).is_file()):
        raise _unknown(name, name, LIBRARIES)
    return Network(name, _of_file(Path(path), function, batch, shape))


def _unknown(name: str, short: str, libraries: Iterable[str]) -> UserError:
    """Return an error that says which name of some libraries is the nearest."""
    known = {known: library for library in libraries for known in LIBRARIES[library][0]()}

    def likeness(other: str) -> float:
        """Return the share of letters in common, and 1 for the same beginning."""
        ratio = difflib.SequenceMatcher(None, short, other).ratio()
        return ratio + other.startswith(short[:4])

    near = max(known, key=likeness)
    nearest = f"the nearest is {known[near]}:{near}"
    return UserError(f"network {name!r}: there is none of that name; {nearest}; {KINDS}")


class _LastHidden(torch.nn.Module):
    """A model of transformers that returns its last hidden state alone.

    Without a mask GPT-2 looks where sequences begin, by operators that TVM lacks.
    """

    def __init__(self, model: torch.nn.Module, masked: bool):
        super().__init__()
        self.model, self.masked = model, masked

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = {"attention_mask": torch.ones_like(x)} if self.masked else {}
        return self.model(x, **mask)[0]


def _transformer(name: str, batch: int) -> Built:
    """Return a model of :data:`TRANSFORMERS`, and text, images or sound as it reads them."""
    place, changes = TRANSFORMERS[name]
    package, kind = place.split(".")
    module = importlib.import_module(f"transformers.models.{package}.modeling_{package}")
    model = getattr(module, kind)
    config = model.config_class(**changes)
    config.use_cache = False
    example = {
        "input_ids": lambda: torch.randint(0, config.vocab_size, (batch, TOKENS)),
        "pixel_values": lambda: torch.randn(batch, 3, config.image_size, config.image_size),
        "input_features": lambda: torch.randn(
            batch, config.num_mel_bins, 2 * config.max_source_positions
        ),
    }
    return _LastHidden(model(config), name == "gpt2"), (example[model.main_input_name](),)


@cache
def declare_operators() -> None:
    """See to it that torchvision can be imported, where it is installed.

    Its compiled operators may be of another build of torch, such as the one for GPUs. Hardly a
    network has any of them, but without two of them neither torchvision nor transformers can be
    imported: they are declared.
    """
    found = importlib.util.find_spec("torchvision")
    if found:
        try:
            torch.ops.load_library(Path(found.origin).with_name("_C.so"))
        except OSError:
            for operator in ("nms", "qnms"):
                torch.library.define(f"torchvision::{operator}", NMS)


def _classifiers() -> list[str]:
    """Return the names of torchvision's classifiers."""
    if not importlib.util.find_spec("torchvision"):
        return []
    from torchvision import models

    return models.list_models(module=models)


def _classifier(name: str, batch: int) -> Built:
    """Return a classifier of torchvision, and images."""
    from torchvision import models

    size = models.get_model_weights(name).DEFAULT.transforms.keywords["crop_size"]
    how = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    return models.get_model(name, weights=None, **how), (torch.randn(batch, 3, size, size),)


# Library -> its names, and what makes a network of a name and a batch.
LIBRARIES: dict[str, tuple[Callable[[], list[str]], Callable[[str, int], Built]]] = {
    "torchvision": (_classifiers, _classifier),
    "transformers": (lambda: [*TRANSFORMERS], _transformer),
}


def _of_file(path: Path, function: str, batch: int | None, shape: str) -> Callable[[], Built]:
    """Return what builds the network of a file."""
    if not path.is_file():
        raise UserError(f"{path}: no such file; {KINDS}")
    if path.suffix == ".onnx" and not function:
        from lib.collect.tvm.onnx_files import read

        return lambda: read(path, batch, shape)
    if path.suffix == ".pt2" and not function:
        return lambda: read_exported(path, batch)
    if path.suffix != ".py":
        raise UserError(f"{path}{':' * bool(function)}{function}: {KINDS}")
    if not function:
        body = []
        with suppress(SyntaxError, ValueError):
            body = ast.parse(path.read_bytes()).body  # the file is not run
        there = [f"{path}:{part.name}" for part in body if isinstance(part, ast.FunctionDef)]
        raise UserError(f"{path}: of which function? {', '.join(there) or 'it has none'}")
    return lambda: _built(path, function, batch)


def _built(path: Path, function: str, batch: int | None) -> Built:
    """Return the network and its example inputs, as a function of a Python file returns them."""
    spec = importlib.util.spec_from_file_location("network_of_the_user", path)
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))
    sys.modules[spec.name] = module  # dataclasses and torch.compile look there
    try:
        spec.loader.exec_module(module)
        build = getattr(module, function)
        takes = inspect.signature(build).parameters.values()
        own = batch is None and all(one.default is not one.empty for one in takes)
        built = build(batch or 1) if takes and not own else build()
    except (Exception, SystemExit) as error:  # the user's code, whatever it does
        raise UserError(f"{path}: {function}: {type(error).__name__}: {error}") from error
    match built:
        case (torch.nn.Module() as network, tuple() as inputs):
            return network, inputs
    raise UserError(f"{path}: {function}: must return a torch.nn.Module and a tuple of inputs")
