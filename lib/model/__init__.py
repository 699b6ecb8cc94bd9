"""The networks: tensors in, scores out. No paths, no numpy files, no tracking."""

from __future__ import annotations

from torch import nn

from lib.errors import UserError
from lib.model.precision import resolve_device, resolve_precision
from lib.model.tgraph import TGraph
from lib.model.tile import TileNetwork
from lib.model.whole import AttentionModel, PoolingModel

# GST, GAT and Partitioning are one network, trained otherwise (lib/train/whole.py).
NETWORKS: dict[str, type[nn.Module]] = {
    "tgraph": TGraph,
    "tile": TileNetwork,
    "pooling": PoolingModel,
    "gst": AttentionModel,
    "gat": AttentionModel,
    "partitioning": AttentionModel,
}


def build_network(settings) -> nn.Module:
    """The network that ``settings.model`` names, with fresh weights from torch's generator.

    The weights are drawn on the CPU and moved to ``settings.device``, so that they do not depend
    on it.

    Raises:
        UserError: for a name that is not in ``NETWORKS``, or a device that is not there.
    """
    if settings.model not in NETWORKS:
        raise UserError(f"--model {settings.model!r}: not one of {', '.join(NETWORKS)}")
    device = resolve_device(settings.device)
    network = NETWORKS[settings.model].from_settings(settings)
    if hasattr(network, "precision"):
        network.precision = resolve_precision(settings.precision, device)
    return network.to(device)
