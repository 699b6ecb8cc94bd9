"""What an input is: a way of seeing a cached graph, which a model's settings name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from lib.files.named import named
from lib.models import build_network
from lib.runs.memory import Estimate
from lib.settings.base import Settings


@dataclass(frozen=True)
class GraphShape:
    """How large a pruned graph is: nodes, configurable ones, layouts that occur, configurations."""

    nodes: int
    configurable: int
    layouts: int
    configurations: int

    def most_rows(self, configurations: int) -> int:
        """Rows that the table of a batch has at most: a configurable node has one a layout."""
        return self.nodes + self.configurable * (min(configurations, self.layouts) - 1)


Estimating = Callable[[nn.Module, Mapping[str, GraphShape], int], Estimate | None]


@dataclass(frozen=True)
class Input:
    """How networks come to read a graph or kernel of the cache, and to score all of it.

    Attributes:
        prepare: (cached graph, settings) -> the graph as the other functions here take it, and
            training.
        scores: (network in evaluation mode, prepared graph, configurations at a time, (r,)
            positions in the cache or None for all of them) -> (r,) float64; ``None`` where many
            graphs are scored together (:mod:`lib.programs.inputs`).
        groupings: (network, prepared graph, (p, c) permutations, configurations a batch) -> (p, c)
            float64, where scores depend on which configurations share a batch; else ``None``.
        estimate: (network, shapes of graphs by name, configurations at a time) -> memory of the
            graph that takes most to score, as far as that is known beforehand and worth telling.
        step_estimate: the same of a step of training.
        widths: settings -> what networks must know of what they read, such as its width.
    """

    prepare: Callable[[Any, Any], Any]
    scores: Callable[[Any, Any, int, np.ndarray | None], np.ndarray] | None
    groupings: Callable[[Any, Any, np.ndarray, int], np.ndarray] | None = None
    estimate: Estimating | None = None
    step_estimate: Estimating | None = None
    widths: Callable[[Any], Mapping[str, Any]] = lambda settings: {}


def input_of(settings: Settings | type[Settings]) -> Input:
    """How the model that settings name sees a cached graph."""
    return named(settings.input)


def network_for(settings: Settings) -> nn.Module:
    """The network that settings name, with fresh weights; as :func:`lib.models.build_network`."""
    return build_network(settings, **input_of(settings).widths(settings))
