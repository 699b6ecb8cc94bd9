"""The networks: tensors in, scores out. No paths, no numpy files, no tracking."""

from __future__ import annotations

from typing import Any

from torch import nn

from lib import native
from lib.files.named import named
from lib.models.precision import resolve_device, resolve_precision
from lib.settings import Settings


def build_network(settings: Settings, **widths: Any) -> nn.Module:
    """The network that ``settings.network`` names, with fresh weights from torch's generator.

    The weights are drawn on the CPU and moved to ``settings.device``, so that they do not depend
    on it. ``widths`` is what it must know of what it reads (:mod:`lib.inputs.input`).

    Raises:
        UserError: for a device that is not there.
    """
    device = resolve_device(settings.device)
    network = named(settings.network).from_settings(settings, **widths)
    if hasattr(network, "precision"):
        network.precision = resolve_precision(settings.precision, device)
    return network.to(device)


def computed_by(network: nn.Module) -> dict[str, str]:
    """What computes a network's numbers: with something else, their last bits are others."""
    some = next(network.parameters())
    loops = hasattr(network, "runs_native") and network.runs_native(some)
    return {
        "device": some.device.type,
        "products": str(getattr(network, "precision", some.dtype)),
        "loops": native.compiler() if loops else "torch",
    }
