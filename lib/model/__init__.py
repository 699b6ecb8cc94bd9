"""The networks: tensors in, scores out. No paths, no numpy files, no tracking."""

from __future__ import annotations

from torch import nn

from lib.errors import UserError
from lib.model.tgraph import TGraph
from lib.model.tile import TileNetwork

# kind of collection: its networks by name
NETWORKS: dict[str, dict[str, type[nn.Module]]] = {
    "layout": {"tgraph": TGraph},
    "tile": {"tile": TileNetwork},
}


def build_network(settings) -> nn.Module:
    """The network that ``settings.model`` names, with fresh weights from torch's generator.

    Raises:
        UserError: for a name that is not one of its kind's in ``NETWORKS``.
    """
    networks = NETWORKS[settings.kind]
    if settings.model not in networks:
        raise UserError(f"--model {settings.model!r}: not one of {', '.join(networks)}")
    return networks[settings.model].from_settings(settings)
