"""The settings of the models that the GST thesis compares, on layouts and on tiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lib.files.errors import UserError
from lib.models.common.settings import WHOLE, TileCollection, TrainedLayouts
from lib.settings.base import ByData, TrainedSettings, check_heads, setting
from lib.settings.search import among, between

CUTS = ("length", "splits")  # every K nodes, or at the file's node_splits as well
POOLING = "network: a linear layer over mean-pooled features"
GAT = "network: graph attention on the whole graph"
PARTITIONING = "network: graph attention, trained on runs of nodes"
GST = "network: graph attention on segments"


@dataclass(frozen=True)
class PoolingSettings(TrainedSettings):
    """The thesis' *Pooling Model* (section 4): a linear layer over means over the nodes."""

    steps: ClassVar[str] = "lib.experiments.steps:PoolingSteps"
    # Whole graphs are one segment, but for GST's.
    segment_nodes: ClassVar[int] = 0
    cut: ClassVar[str] = "length"


@dataclass(frozen=True)
class AttentionSettings(PoolingSettings):
    """Graph attention over the whole graph with gradients everywhere: the thesis' *GAT*."""

    steps: ClassVar[str] = "lib.experiments.steps:FullSteps"
    scatter: ClassVar[str] = "any"
    weights_depend_on: ClassVar[tuple[str, ...]] = (
        *PoolingSettings.weights_depend_on,
        "channels",
        "layers",
        "heads",
    )

    channels: int = setting(
        64, "width of a node's vector, of all heads together", search=among(32, 64, 128)
    )
    layers: int = setting(2, "layers of graph attention", search=between(1, 4))
    heads: int = setting(4, "heads of graph attention", search=among(1, 2, 4, 8))
    memory_gigabytes: float = setting(
        0.0, "most that a step of training may take; 0 for all that is free", 0
    )

    def check(self) -> None:
        super().check()
        check_heads(self.channels, self.heads)


@dataclass(frozen=True)
class PartitioningSettings(AttentionSettings):
    """The thesis' *Partitioning*: gradients in a random contiguous run of nodes only."""

    steps: ClassVar[str] = "lib.experiments.steps:RunSteps"
    trained_nodes: int = setting(1024, "nodes of the run that gradients flow through")


@dataclass(frozen=True)
class SegmentSettings(AttentionSettings):
    """Graph segment training (algorithm 1 of the GST thesis)."""

    steps: ClassVar[str] = "lib.experiments.steps:SegmentSteps"
    weights_depend_on: ClassVar[tuple[str, ...]] = (
        *AttentionSettings.weights_depend_on,
        "segment_nodes",
    )

    segment_nodes: int = setting(1024, "K: most nodes of a segment (algorithm 1)")
    trained_segments: int = setting(
        1, "b: segments a step that gradients flow through", search=between(1, 4)
    )
    history: bool = setting(True, "read other segments' embeddings from a table of earlier ones")
    history_gigabytes: float = setting(
        0.0, "largest size of that table; 0: half of the memory that is free", 0
    )
    segment_dropout: float = setting(
        0.0, "share of the table's embeddings left out", 0, 0.99, search=between(0, 0.8)
    )

    def check(self) -> None:
        super().check()
        if self.segment_dropout and not self.history:
            raise UserError("--segment-dropout: drops what the table remembers; use --history")


@dataclass(frozen=True)
class WholeGraphs(TrainedLayouts):
    """Layout collections as these models read them: every node, a sum over segments.

    GST, GAT and Partitioning are one network, trained otherwise (lib/experiments/fold.py).
    """

    input: ClassVar[str] = "lib.experiments.inputs:INPUT"
    fold: ClassVar[str] = "lib.experiments.fold:SegmentsFold"
    network: ClassVar[str] = "lib.experiments.models.whole:AttentionModel"
    hops: int | str = setting(
        WHOLE, "keep nodes this far from a configurable one, or `all`", words=(WHOLE,), first=1
    )


@dataclass(frozen=True)
class LayoutPooling(WholeGraphs, PoolingSettings):
    """Pooling of layout collections."""

    network: ClassVar[str] = "lib.experiments.models.whole:PoolingModel"

    model: str = setting("pooling", POOLING)


@dataclass(frozen=True)
class LayoutAttention(WholeGraphs, AttentionSettings):
    """GAT on layout collections."""

    model: str = setting("gat", GAT)


@dataclass(frozen=True)
class LayoutPartitioning(WholeGraphs, PartitioningSettings):
    """Partitioning on layout collections."""

    fits: ClassVar[ByData] = {"small": {"trained_nodes": 128}}

    model: str = setting("partitioning", PARTITIONING)


@dataclass(frozen=True)
class LayoutSegments(WholeGraphs, SegmentSettings):
    """GST on layout collections."""

    weights_depend_on: ClassVar[tuple[str, ...]] = (*SegmentSettings.weights_depend_on, "cut")
    # Graphs have a few hundred nodes: segments are so small that there are several.
    fits: ClassVar[ByData] = {"small": {"segment_nodes": 64, "trained_segments": 2}}

    model: str = setting("gst", GST)
    cut: str = setting("length", f"where to cut graphs: {' or '.join(CUTS)}", choices=CUTS)


@dataclass(frozen=True)
class WholeKernels(TileCollection):
    """Tile collections as these models read them: a kernel a step, a sum over segments.

    Kernels have some forty nodes. The thesis does not say how it cut them; its column for tiles
    has GST and Partitioning apart from GAT, so that segments must have been shorter than kernels.
    """

    input: ClassVar[str] = "lib.experiments.kernel_inputs:INPUT"
    fold: ClassVar[str] = "lib.experiments.kernel_fold:KernelSegmentsFold"
    network: ClassVar[str] = "lib.experiments.models.kernel_segments:TiledAttentionModel"


@dataclass(frozen=True)
class TilePooling(WholeKernels, PoolingSettings):
    """Pooling of tile collections."""

    network: ClassVar[str] = "lib.experiments.models.kernel_segments:TiledPoolingModel"

    model: str = setting("pooling", POOLING)


@dataclass(frozen=True)
class TileAttention(WholeKernels, AttentionSettings):
    """GAT on tile collections."""

    model: str = setting("gat", GAT)


@dataclass(frozen=True)
class TilePartitioning(WholeKernels, PartitioningSettings):
    """Partitioning on tile collections."""

    model: str = setting("partitioning", PARTITIONING)
    trained_nodes: int = setting(16, "nodes of the run that gradients flow through")


@dataclass(frozen=True)
class TileSegments(WholeKernels, SegmentSettings):
    """GST on tile collections."""

    model: str = setting("gst", GST)
    segment_nodes: int = setting(16, "K: most nodes of a segment (algorithm 1)")
