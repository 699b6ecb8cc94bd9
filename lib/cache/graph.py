"""One graph as the stages after preprocessing see it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class CachedGraph:
    """A pruned graph with its distinct configurations: n nodes, m edges, k configurable nodes.

    Attributes:
        name: the graph's name.
        split: ``train``, ``valid`` or ``test`` of the source.
        node_feat: (n, 140) float32, -1 padded.
        node_opcode: (n,) uint8.
        edges: (m, 2) int32, rows [user, operand], positions among the kept nodes.
        config_nodes: (k,) int32, positions among the kept nodes.
        dictionary: (d, 3) int32, base-7 codes of output, input and kernel layout.
        cells: (c, k) unsigned integers into ``dictionary``.
        runtime: (c,) int64 nanoseconds, all zero if unlabelled.
        original: (o,) int32: which of the c configurations each of the source file's o is.
    """

    name: str
    split: str
    node_feat: np.ndarray
    node_opcode: np.ndarray
    edges: np.ndarray
    config_nodes: np.ndarray
    dictionary: np.ndarray
    cells: np.ndarray
    runtime: np.ndarray
    original: np.ndarray

    @property
    def labelled(self) -> bool:
        """Whether the runtimes are known."""
        return bool(len(self.runtime)) and bool(self.runtime[0] > 0)
