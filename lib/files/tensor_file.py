"""Files of tensors, such as weights: safetensors, whole or absent, nothing pickled."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import nn

from lib.files.artifacts import atomic_file
from lib.files.errors import DataError
from lib.files.regular import check_regular

KEY = "about"  # of the file's metadata, and of the JSON object there: what describes the tensors
EXPECTED = "a file written by 02_train.py; delete it, and train again"


def save(path: Path | str, tensors: Mapping[str, torch.Tensor], metadata: Any) -> None:
    """Write named tensors and a JSON-serializable description to one file.

    Args:
        path: the ``.safetensors`` file.
        tensors: any device and dtype; stored contiguous, from the CPU.
        metadata: what a reader must know in addition to the tensors (settings, epoch, scores).
    """
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    metadata = json.loads(json.dumps(metadata))  # keys become text, which has one order
    content = to_bytes(plain, metadata={KEY: json.dumps({KEY: metadata}, sort_keys=True)})
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)


def load(path: Path | str) -> tuple[dict[str, torch.Tensor], Any]:
    """Return the tensors, on the CPU, and the description that :func:`save` wrote.

    Raises:
        DataError: if the file is missing, damaged or not such a file.
    """
    with _opened(path) as file:
        metadata = _metadata(file)
        return {name: file.get_tensor(name) for name in file.keys()}, metadata  # noqa: SIM118


def read_metadata(path: Path | str) -> Any:
    """Return a file's description without reading its tensors; raises as :func:`load`."""
    with _opened(path) as file:
        return _metadata(file)


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


@contextmanager
def _opened(path: Path | str) -> Iterator[safe_open]:
    """Open a file of tensors; whatever is wrong with it is a DataError."""
    try:
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            yield file
    except DataError as error:
        raise DataError(path, "checkpoint", error.actual, EXPECTED) from None
    except (OSError, SafetensorError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise DataError(path, "checkpoint", error, EXPECTED) from None


def _metadata(file: safe_open) -> Any:
    return json.loads((file.metadata() or {})[KEY])[KEY]


def _kind(tensor: torch.Tensor) -> str:
    """Shape and type, such as ``32 x 140 float32``."""
    return f"{' x '.join(map(str, tensor.shape)) or 'one'} {str(tensor.dtype).rpartition('.')[2]}"
