"""The networks: tensors in, scores out. No paths, no numpy files, no tracking."""

from __future__ import annotations

from typing import Any

from torch import nn

from lib import native
from lib.files.errors import UserError
from lib.models.cdmpp import Cdmpp
from lib.models.cdmpp_plus import CdmppPlus
from lib.models.kernel_segments import TiledAttentionModel, TiledPoolingModel
from lib.models.plus import TGraphPlus
from lib.models.precision import resolve_device, resolve_precision
from lib.models.tgraph import TGraph
from lib.models.tile import TileNetwork
from lib.models.whole import AttentionModel, PoolingModel
from lib.settings import Settings

# kind of collection: its networks by name.
# GST, GAT and Partitioning are one network, trained otherwise (lib/train/segments.py).
NETWORKS: dict[str, dict[str, type[nn.Module]]] = {
    "layout": {
        "tgraph": TGraph,
        "tgraph-plus": TGraphPlus,
        "gst": AttentionModel,
        "pooling": PoolingModel,
        "partitioning": AttentionModel,
        "gat": AttentionModel,
    },
    "tile": {
        "tile": TileNetwork,
        "gst": TiledAttentionModel,
        "pooling": TiledPoolingModel,
        "partitioning": TiledAttentionModel,
        "gat": TiledAttentionModel,
    },
    "programs": {"cdmpp": Cdmpp, "cdmpp-plus": CdmppPlus},
}


def build_network(settings: Settings, **widths: Any) -> nn.Module:
    """The network that ``settings.model`` names, with fresh weights from torch's generator.

    The weights are drawn on the CPU and moved to ``settings.device``, so that they do not depend
    on it.

    Args:
        settings: of the model.
        widths: what it must know of what it reads, as far as its ``from_settings`` asks for any
            (:mod:`lib.inputs.kinds` knows them).

    Raises:
        UserError: for a name that is not one of its kind's in ``NETWORKS``, or a device that is
            not there.
    """
    networks = NETWORKS[settings.kind]
    if settings.model not in networks:
        raise UserError(f"--model {settings.model!r}: not one of {', '.join(networks)}")
    device = resolve_device(settings.device)
    network = networks[settings.model].from_settings(settings, **widths)
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
