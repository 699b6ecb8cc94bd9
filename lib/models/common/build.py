"""New networks, and the code and hardware that compute them."""

from __future__ import annotations

from inspect import signature
from typing import Any

from torch import nn

from lib import native
from lib.files.named import named
from lib.models.common.input import input_of
from lib.models.common.precision import resolve_device, resolve_precision
from lib.settings import Settings


def network_for(settings: Settings) -> nn.Module:
    """Return the network that settings name, with fresh weights; as :func:`build_network`."""
    return build_network(settings, **input_of(settings).widths(settings))


def build_network(settings: Any, **widths: Any) -> nn.Module:
    """Return the network that ``settings.network`` names, with weights from torch's generator.

    The weights are drawn on the CPU and moved to ``settings.device``, so that they do not depend
    on it. ``widths`` are sizes of what it reads (:mod:`lib.models.common.input`).

    Raises:
        UserError: for a device that is not there.
    """
    device = resolve_device(settings.device)
    # Parameters of the network and of its bases are settings, or widths, of the same names.
    kind, offered = named(settings.network), {**vars(settings), **widths, "settings": settings}
    taken = {name for base in kind.__mro__ for name in signature(base.__init__).parameters}
    network = kind(**{name: offered[name] for name in taken & offered.keys()})
    if hasattr(network, "precision"):
        network.precision = resolve_precision(settings.precision, device)
    return network.to(device)


def computed_by(network: nn.Module) -> dict[str, str]:
    """Return what computes a network's numbers: with something else, their last bits are others."""
    some = next(network.parameters())
    loops = hasattr(network, "runs_native") and network.runs_native(some)
    return {
        "device": some.device.type,
        "products": str(getattr(network, "precision", some.dtype)),
        "loops": native.compiler() if loops else "torch",
    }
