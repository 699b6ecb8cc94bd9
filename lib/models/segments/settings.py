"""The settings of the models that the GST thesis compares on layout collections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lib.files.errors import UserError
from lib.models.common.settings import WHOLE, TrainedLayouts
from lib.settings.base import ByData, check_heads, setting
from lib.settings.search import among, between


@dataclass(frozen=True)
class LayoutPooling(TrainedLayouts):
    """The thesis' *Pooling Model* (section 4): a linear layer over means over the nodes."""

    input: ClassVar[str] = "lib.models.segments.inputs:INPUT"
    fold: ClassVar[str] = "lib.models.segments.training:SegmentsFold"
    network: ClassVar[str] = "lib.models.segments.network:PoolingModel"
    # Whole graphs are one segment, but for GST's.
    segment_nodes: ClassVar[int] = 0

    model: str = setting("pooling", "network: a linear layer over mean-pooled features")
    hops: int | str = setting(
        WHOLE, "keep nodes this far from a configurable one, or `all`", words=(WHOLE,), first=1
    )


@dataclass(frozen=True)
class LayoutAttention(LayoutPooling):
    """Graph attention over the whole graph with gradients everywhere: the thesis' *GAT*.

    GST, GAT and Partitioning are one network, trained otherwise (lib/models/segments/training.py).
    """

    network: ClassVar[str] = "lib.models.segments.network:AttentionModel"
    scatter: ClassVar[str] = "any"

    model: str = setting("gat", "network: graph attention on the whole graph")
    channels: int = setting(
        64, "width of a node's vector, of all heads together", search=among(32, 64, 128)
    )
    layers: int = setting(2, "layers of graph attention", search=between(1, 4))
    heads: int = setting(4, "heads of graph attention", search=among(1, 2, 4, 8))

    def check(self) -> None:
        super().check()
        check_heads(self.channels, self.heads)


@dataclass(frozen=True)
class LayoutPartitioning(LayoutAttention):
    """The thesis' *Partitioning*: gradients in a random contiguous run of nodes only."""

    fold: ClassVar[str] = "lib.models.segments.training:RunFold"
    fits: ClassVar[ByData] = {"small": {"trained_nodes": 128}}

    model: str = setting("partitioning", "network: graph attention, trained on runs of nodes")
    trained_nodes: int = setting(1024, "nodes of the run that gradients flow through")


@dataclass(frozen=True)
class LayoutSegments(LayoutAttention):
    """Graph segment training (algorithm 1 of the GST thesis)."""

    fold: ClassVar[str] = "lib.models.segments.training:TableFold"
    # Graphs have a few hundred nodes: segments are so small that there are several.
    fits: ClassVar[ByData] = {"small": {"segment_nodes": 64, "trained_segments": 2}}

    model: str = setting("gst", "network: graph attention on segments")
    segment_nodes: int = setting(1024, "K: most nodes of a segment (algorithm 1)")
    trained_segments: int = setting(
        1, "b: segments a step that gradients flow through", search=between(1, 4)
    )
    history: bool = setting(True, "read other segments' embeddings from a table of earlier ones")
    segment_dropout: float = setting(
        0.0, "share of the table's embeddings left out", 0, 0.99, search=between(0, 0.8)
    )

    def check(self) -> None:
        super().check()
        if self.segment_dropout and not self.history:
            raise UserError("--segment-dropout: drops what the table remembers; use --history")
