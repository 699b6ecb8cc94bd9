"""Weights and training state on disk: safetensors, whole or absent, nothing pickled."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes

from lib.artifacts import atomic_file
from lib.errors import DataError


def save(path: Path | str, tensors: Mapping[str, torch.Tensor], about: Any) -> None:
    """Write named tensors and a JSON-serializable description to one file.

    Args:
        path: the ``.safetensors`` file.
        tensors: any device and dtype; stored contiguous, from the CPU.
        about: what a reader must know beside the tensors (settings, epoch, scores).
    """
    plain = {name: t.detach().cpu().contiguous() for name, t in tensors.items()}
    content = to_bytes(plain, metadata={"about": json.dumps(about, sort_keys=True)})
    with atomic_file(path) as temporary:
        temporary.write_bytes(content)


def load(path: Path | str) -> tuple[dict[str, torch.Tensor], Any]:
    """Read what :func:`save` wrote: ``(tensors, about)``, tensors on the CPU.

    Raises:
        DataError: if the file is missing or not such a file.
    """
    try:
        with safe_open(path, framework="pt") as file:
            about = json.loads((file.metadata() or {})["about"])
            return {name: file.get_tensor(name) for name in file.keys()}, about  # noqa: SIM118
    except (OSError, SafetensorError, KeyError, ValueError) as error:
        raise DataError(path, "checkpoint", error, "a file written by 02_train.py") from None
