"""The inputs: each way of seeing a cached graph, by the name that settings have for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from lib.inputs import copies, kernel_segments, programs
from lib.inputs.kernels import kernel_scores
from lib.inputs.pruned import score_groupings, score_in_order, scoring_estimate
from lib.inputs.segments import segmented, segments_scores
from lib.inputs.tensors import GraphShape, graph_tensors
from lib.models import build_network
from lib.runs.memory import Estimate
from lib.settings.base import Settings


@dataclass(frozen=True)
class Input:
    """How networks come to read a graph or kernel of the cache, and to score all of it.

    Attributes:
        prepare: (cached graph, settings) -> the graph as the other functions here take it, and
            training.
        scores: (network in evaluation mode, prepared graph, configurations at a time, (r,)
            positions in the cache or None for all of them) -> (r,) float64; ``None`` where many
            graphs are scored together (:mod:`lib.inputs.programs`).
        groupings: (network, prepared graph, (p, c) permutations, configurations a batch) -> (p, c)
            float64, where scores depend on which configurations share a batch; else ``None``.
        estimate: (network, shapes of graphs by name, configurations at a time) -> memory of the
            graph that takes most to score, as far as that is known beforehand and worth telling.
        widths: settings -> what networks must know of what they read, such as its width.
    """

    prepare: Callable[[Any, Any], Any]
    scores: Callable[[nn.Module, Any, int, np.ndarray | None], np.ndarray] | None
    groupings: Callable[[nn.Module, Any, np.ndarray, int], np.ndarray] | None = None
    estimate: Callable[[nn.Module, Mapping[str, GraphShape], int], Estimate | None] | None = None
    widths: Callable[[Any], Mapping[str, Any]] = lambda settings: {}


INPUTS: dict[str, Input] = {
    "pruned": Input(
        prepare=lambda graph, settings: graph_tensors(graph),
        scores=score_in_order,
        groupings=score_groupings,
        estimate=scoring_estimate,
    ),
    "copies": Input(
        prepare=copies.copies_graph,
        scores=copies.copies_scores,
        widths=copies.widths,
    ),
    "segments": Input(prepare=segmented, scores=segments_scores),
    "kernel-segments": Input(prepare=kernel_segments.segmented, scores=segments_scores),
    "kernels": Input(prepare=lambda kernel, settings: kernel, scores=kernel_scores),
    "programs": Input(prepare=lambda task, settings: task, scores=None, widths=programs.widths),
}


def network_for(settings: Settings) -> nn.Module:
    """The network that settings name, with fresh weights; as :func:`lib.models.build_network`."""
    return build_network(settings, **INPUTS[settings.input].widths(settings))
