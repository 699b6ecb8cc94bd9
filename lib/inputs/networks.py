"""The network of a run's settings, made for what it is given to read."""

from __future__ import annotations

from torch import nn

from lib.inputs import copies as moves
from lib.models import build_network
from lib.settings.base import Settings

# Widths of what a model sees, where its networks do not fix them themselves.
WIDTHS: dict[str, dict[str, int]] = {"copies": moves.WIDTHS}


def network_for(settings: Settings) -> nn.Module:
    """The network that settings name, with fresh weights; as :func:`lib.models.build_network`."""
    return build_network(settings, **WIDTHS.get(settings.sees, {}))
