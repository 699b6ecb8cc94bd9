"""Files of tensors, such as weights: safetensors, whole or absent, checked, nothing pickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import nn

from lib.files.artifacts import atomic_file
from lib.files.checksum import Checksum
from lib.files.errors import DataError
from lib.files.regular import check_regular
from lib.files.schema import expect

KEY = "about"  # of the file's metadata: a JSON object of what it is about, and a checksum of all
EXPECTED = "a file written by 02_train.py; delete it, and train again"


def save(path: Path | str, tensors: Mapping[str, torch.Tensor], about: Any) -> None:
    """Write named tensors and a JSON-serializable description to one file.

    Args:
        path: the ``.safetensors`` file.
        tensors: any device and dtype; stored contiguous, from the CPU.
        about: what a reader must know beside the tensors (settings, epoch, scores).
    """
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    about = json.loads(json.dumps(about))  # as it will be read, with keys that are text
    text = json.dumps({"about": about, "checksum": _checksum(plain, about)}, sort_keys=True)
    content = to_bytes(plain, metadata={KEY: text})
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)


def load(path: Path | str) -> tuple[dict[str, torch.Tensor], Any]:
    """Read what :func:`save` wrote: ``(tensors, about)``, tensors on the CPU.

    Raises:
        DataError: if the file is missing, damaged or not such a file.
    """
    about, checksum = _described(path)
    try:
        with safe_open(path, framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError) as error:
        raise DataError(path, "checkpoint", error, EXPECTED) from None
    actual = _checksum(tensors, about)
    if actual != checksum:
        raise DataError(path, "checksum", f"{actual} (damaged)", f"{checksum}, {EXPECTED}")
    return tensors, about


def read_about(path: Path | str) -> Any:
    """What a file is about, without its tensors and unchecked; raises as :func:`load`."""
    return _described(path)[0]


def load_into(network: nn.Module, path: Path | str, tensors: Mapping[str, torch.Tensor]) -> None:
    """Give a network the weights of a file.

    Args:
        network: of the settings that the weights were trained with.
        path: the file, to name in an error.
        tensors: the weights.

    Raises:
        DataError: unless they are the network's, by name, shape and type, and finite.
    """
    weights = network.state_dict()
    for name in sorted(weights.keys() ^ tensors.keys()):
        actual, expected = ("none", "it") if name in weights else ("it", "no such weights")
        raise DataError(path, name, actual, f"{expected}; train again")
    for name, tensor in tensors.items():
        expected = weights[name]
        if (tensor.shape, tensor.dtype) != (expected.shape, expected.dtype):
            raise DataError(path, name, _kind(tensor), f"{_kind(expected)}; train again")
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise DataError(path, name, "a value that is not finite", "finite ones; train again")
    network.load_state_dict(tensors)


def _described(path: Path | str) -> tuple[Any, str]:
    try:
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            text = (file.metadata() or {})[KEY]
        document = json.loads(text)
    except DataError as error:
        raise DataError(path, "checkpoint", error.actual, EXPECTED) from None
    except (OSError, SafetensorError, KeyError, ValueError, RecursionError) as error:
        raise DataError(path, "checkpoint", error, EXPECTED) from None
    expect(document, {"checksum": str}, path, KEY, EXPECTED)
    return document.get("about"), document["checksum"]


def _checksum(tensors: Mapping[str, torch.Tensor], about: Any) -> str:
    """Of everything that a file says, whatever the order of its tensors."""
    checksum = Checksum()
    checksum.update(json.dumps(about, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        checksum.update(f"{name} {_kind(tensor)}".encode())
        if tensor.numel():  # what has no element may have strides that no view takes
            checksum.update(tensor.reshape(-1).view(torch.uint8).numpy())
    return checksum.digits


def _kind(tensor: torch.Tensor) -> str:
    """Shape and type, such as ``32 x 140 float32``."""
    return f"{' x '.join(map(str, tensor.shape)) or 'one'} {str(tensor.dtype).rpartition('.')[2]}"
