"""Generated graphs of the sizes that the speed benches measure at."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from lib.cache.codec import LARGEST
from lib.cache.graph import CachedGraph

CODES, CODES_OF_A_NODE = 40, 8


@dataclass(frozen=True)
class Shape:
    """Nodes, configurable nodes, and configurations in a batch."""

    nodes: int
    configurable: int
    configurations: int

    def __str__(self) -> str:
        return f"{self.nodes} x {self.configurable} x {self.configurations}"


SHAPES = (Shape(120, 25, 48), Shape(800, 150, 64), Shape(3000, 500, 128))


def program_graph(shape: Shape, total: int, seed: int = 0) -> CachedGraph:
    """A graph like a pruned program: every node uses one or two of the 60 nodes before it.

    Args:
        shape: its nodes and configurable nodes.
        total: configurations of the graph, of which a batch takes ``shape.configurations``.
        seed: the same arguments give the same graph.
    """
    rng = np.random.default_rng(seed)
    users = np.repeat(np.arange(1, shape.nodes), 2)
    operands = rng.integers(np.maximum(0, users - 60), users)
    features = rng.normal(0, 1, (shape.nodes, 140)).astype(np.float32)
    features[:, 134:] = rng.integers(-1, 6, (shape.nodes, 6))
    own = rng.integers(0, CODES, (shape.configurable, CODES_OF_A_NODE))
    choice = rng.integers(0, CODES_OF_A_NODE, (total, shape.configurable))
    return CachedGraph(
        name=str(shape),
        split="train",
        node_feat=features,
        node_opcode=rng.integers(1, 121, shape.nodes).astype(np.uint8),
        edges=np.unique(np.stack([users, operands], axis=1), axis=0).astype(np.int32),
        node_splits=np.array([0, shape.nodes], np.int32),
        config_nodes=np.sort(rng.permutation(shape.nodes)[: shape.configurable]).astype(np.int32),
        dictionary=rng.integers(0, LARGEST, (CODES, 3)).astype(np.int32),
        cells=np.take_along_axis(own.T, choice, axis=0).astype(np.uint8),
        runtime=rng.integers(10**6, 2 * 10**6, total),
        original=np.arange(total, dtype=np.int32),
    )
