"""From a cached graph to the tensors a network reads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from lib.cache.codec import decode_layouts
from lib.cache.graph import CachedGraph
from lib.models.inputs import DIGIT_VALUES, NUMERIC, GraphBatch

LARGEST_DIGIT = (
    DIGIT_VALUES - 2
)  # of a layout; a tensor of more than six dimensions has larger ones


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


@dataclass(frozen=True, eq=False)
class GraphTensors:
    """What all batches of one graph share; :meth:`batch` adds the configurations.

    Nodes are renumbered: the k configurable ones first, in their order, then the others.
    """

    cells: np.ndarray  # (c, k) as in the cache, possibly a memory map
    digits: torch.Tensor  # (d, 18) int64, the dictionary's digits + 1
    features: torch.Tensor  # (n, 134) float32
    opcode: torch.Tensor  # (n,) int64
    layout: torch.Tensor  # (n, 6) int64, digits + 1
    sources: torch.Tensor
    pointers: torch.Tensor

    @property
    def shape(self) -> GraphShape:
        """How large the graph is."""
        count, configurable = self.cells.shape
        return GraphShape(len(self.opcode), configurable, len(self.digits), count)

    def batch(self, rows: np.ndarray) -> GraphBatch:
        """The graph under the configurations at ``rows`` of the cache's cells, (b,) integers."""
        cells = np.asarray(self.cells[rows])  # (b, k); reads these rows only
        configurable, size = cells.shape[1], len(self.digits)
        others = len(self.opcode) - configurable
        keys = cells.T.astype(np.int64) + size * np.arange(configurable)[:, None]
        pairs, index = np.unique(keys, return_inverse=True)  # sorted: node by node
        node = torch.cat(
            [torch.arange(configurable, configurable + others), torch.from_numpy(pairs // size)]
        )
        unset = torch.zeros((others, self.digits.shape[1]), dtype=torch.int64)
        return GraphBatch(
            features=self.features[node],
            opcode=self.opcode[node],
            layout=self.layout[node],
            config=torch.cat([unset, self.digits[torch.from_numpy(pairs % size)]]),
            cells=torch.from_numpy(index.reshape(keys.shape) + others),
            sources=self.sources,
            pointers=self.pointers,
        )


def graph_tensors(graph: CachedGraph) -> GraphTensors:
    """Prepare a cached graph for batching."""
    count = len(graph.node_opcode)
    is_other = np.ones(count, bool)
    is_other[graph.config_nodes] = False
    order = np.concatenate([graph.config_nodes, np.flatnonzero(is_other)])
    sources, pointers = neighbours(count, np.argsort(order)[graph.edges])
    features = np.asarray(graph.node_feat)[order]
    return GraphTensors(
        cells=graph.cells,
        digits=torch.from_numpy(decode_layouts(graph.dictionary).astype(np.int64) + 1),
        features=torch.from_numpy(features[:, :NUMERIC].copy()),
        opcode=torch.from_numpy(graph.node_opcode[order].astype(np.int64)),
        layout=torch.from_numpy(
            np.clip(features[:, NUMERIC:], -1, LARGEST_DIGIT).astype(np.int64) + 1
        ),
        sources=torch.from_numpy(sources),
        pointers=torch.from_numpy(pointers),
    )


def neighbours(count: int, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Immediate neighbours of each node, users and operands alike, each once.

    Args:
        count: number of nodes.
        edges: (m, 2) positions.

    Returns:
        ``(sources, pointers)``, int64: the neighbours of node i are
        ``sources[pointers[i]:pointers[i + 1]]``, ascending.
    """
    both = np.concatenate([edges, edges[:, ::-1]]).reshape(-1, 2).astype(np.int64)
    keys = np.unique(both[:, 0] * count + both[:, 1])
    pointers = np.searchsorted(keys, np.arange(count + 1, dtype=np.int64) * count)
    return keys % max(1, count), pointers.astype(np.int64)
