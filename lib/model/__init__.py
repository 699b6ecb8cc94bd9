"""The networks: tensors in, scores out. No paths, no numpy files, no tracking."""

from __future__ import annotations

from torch import nn

from lib.errors import UserError
from lib.model.tgraph import TGraph
from lib.model.tile import TileNetwork

NETWORKS: dict[str, type[nn.Module]] = {"tgraph": TGraph, "tile": TileNetwork}


def build_network(settings) -> nn.Module:
    """The network that ``settings.model`` names, with fresh weights from torch's generator.

    Raises:
        UserError: for a name that is not in ``NETWORKS``.
    """
    if settings.model not in NETWORKS:
        raise UserError(f"--model {settings.model!r}: not one of {', '.join(NETWORKS)}")
    return NETWORKS[settings.model].from_settings(settings)
