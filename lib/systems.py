"""All systems: what each stage needs of a kind of collections, named here and nowhere else.

A name is ``module:object``, imported when it is asked for (:mod:`lib.files.named`), so that nobody
pays for what another system runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class System:
    """A kind of collections.

    Attributes:
        models: the settings of each model; the first one is taken if none is named.
    """

    models: Mapping[str, str]


SYSTEMS: dict[str, System] = {
    "layout": System(
        models={
            "tgraph-plus": "lib.settings.models:PlusSettings",
            "tgraph": "lib.settings.models:LayoutSettings",
            "gst": "lib.settings.thesis:LayoutSegments",
            "pooling": "lib.settings.thesis:LayoutPooling",
            "partitioning": "lib.settings.thesis:LayoutPartitioning",
            "gat": "lib.settings.thesis:LayoutAttention",
        },
    ),
    "tile": System(
        models={
            "tile": "lib.settings.models:TileSettings",
            "gst": "lib.settings.thesis:TileSegments",
            "pooling": "lib.settings.thesis:TilePooling",
            "partitioning": "lib.settings.thesis:TilePartitioning",
            "gat": "lib.settings.thesis:TileAttention",
        },
    ),
    "programs": System(
        models={
            "cdmpp-plus": "lib.programs.settings:ProgramPlusSettings",
            "cdmpp": "lib.programs.settings:ProgramSettings",
        },
    ),
}
