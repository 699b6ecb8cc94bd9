"""Inputs: ways to see a cached graph, which a model's settings name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.files.named import named
from lib.settings.base import Settings


@dataclass(frozen=True)
class Input:
    """A way to read a graph or kernel of the cache, and to score all of it.

    Attributes:
        prepare: (cached graph, settings) -> the graph as the other functions here take it, and
            training.
        scores: (network in evaluation mode, prepared graph, configurations at a time, (r,)
            positions in the cache) -> (r,) float64; ``None`` where many graphs are scored together
            (:mod:`lib.programs.inputs`).
        groupings: (network, prepared graph, (p, c) permutations, configurations a batch) -> (p, c)
            float64, where scores depend on which configurations share a batch; else ``None``.
        takes_less: memory, in words, where a graph may take more than there is: the process is
            then held to what is free.
        widths: settings -> what networks must know of what they read, such as its width.
    """

    prepare: Callable[[Any, Any], Any]
    scores: Callable[[Any, Any, int, np.ndarray], np.ndarray] | None
    groupings: Callable[[Any, Any, np.ndarray, int], np.ndarray] | None = None
    takes_less: str = ""
    widths: Callable[[Any], Mapping[str, Any]] = lambda settings: {}


def input_of(settings: Settings | type[Settings]) -> Input:
    """Return how the model that settings name sees a cached graph."""
    return named(settings.input)
