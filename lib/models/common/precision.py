"""The device that a network runs on, and the type of its matrix products."""

from __future__ import annotations

import torch

from lib.files.errors import UserError

PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def resolve_device(name: str) -> torch.device:
    """``auto`` is the GPU where there is one; otherwise what is named, such as ``cpu``; raises
    UserError for a device that is not there."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = torch.device("meta")
    if device.type not in ("cpu", "cuda"):  # nothing else is tried by any test
        raise UserError(f"--device {name!r}: must be auto, cpu or cuda")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"--device {name}: torch finds {torch.cuda.device_count()} GPUs here")
    return device


def resolve_precision(name: str, device: torch.device) -> torch.dtype:
    """``auto`` is bfloat16 where the device multiplies it faster than float32; raises UserError
    for another name."""
    if name == "auto":
        return torch.bfloat16 if _has_bfloat16(device) else torch.float32
    if name not in PRECISIONS:
        raise UserError(f"--precision {name!r}: must be auto, {' or '.join(PRECISIONS)}")
    return PRECISIONS[name]


def _has_bfloat16(device: torch.device) -> bool:
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported(including_emulation=False)
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
