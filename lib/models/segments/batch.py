"""The input of whole-graph networks: a graph under some configurations, segment by segment."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from lib.models.common.batch import OnDevice
from lib.models.common.rows import GraphBatch


@dataclass(frozen=True)
class Segment(OnDevice):
    """A segment under the configurations that differ in it, and what it counts for.

    Attributes:
        graph: the segment as a graph of its own, under d configurations.
        places: (p,) int64, those of the batch's b configurations that need it.
        index: (p,) int64, which of the d each of them is here.
        number: the segment's, in its graph.
        trained: whether gradients flow through it.
        nodes: those that they flow through, positions in ``graph``; None for all.
        weight: factor of its embedding.
    """

    graph: GraphBatch
    places: Tensor
    index: Tensor
    number: int = 0
    trained: bool = True
    nodes: Tensor | None = None
    weight: float = 1.0

    def embedded(self, embeddings: Tensor) -> Embedded:
        """Return what was computed of it: (p, width), on any device."""
        return Embedded(self.number, self.places.cpu(), self.trained, embeddings.detach().cpu())


@dataclass(frozen=True)
class Embedded:
    """Embeddings that were computed of a segment; the segment, with its features, can go.

    Attributes:
        number, places, trained: of the segment.
        embeddings: (p, width) of its ``places``, without gradients, on the CPU.
    """

    number: int
    places: Tensor
    trained: bool
    embeddings: Tensor


@dataclass(frozen=True)
class SegmentsBatch:
    """One graph under b configurations, as the sum of its segments.

    Attributes:
        configurations: b.
        nodes: of the whole graph.
        segments: those to compute, made one after another while they are used.
        stored: (b, width) sum of embeddings that need not be computed; None for zero.
        computed: where the network puts the segments' embeddings; None if nobody wants them.
    """

    configurations: int
    nodes: int
    segments: Iterable[Segment]
    stored: Tensor | None = None
    computed: list[Embedded] | None = field(default=None, repr=False)

    def to(self, device: torch.device | str) -> SegmentsBatch:
        """The same batch on another device; segments follow when they are used."""
        return self if self.stored is None else replace(self, stored=self.stored.to(device))
