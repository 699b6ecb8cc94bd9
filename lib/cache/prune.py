"""Keep the part of a graph that a configuration can touch (TGraph paper, section 2.2.1).

Nodes: the configurable ones and those within ``hops`` edges of one, in either direction; the
paper has one hop. Edges: *every* edge with both ends kept. The paper speaks of nodes only;
published code kept just the edges that touch a configurable node, so that two kept neighbours
lost the edge between them although both ends were still in the graph. An edge whose ends are
both known costs next to nothing and says which operand feeds which user, so it stays.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from lib.cache.graph import EFFECTS, CachedGraph

ALL = "all"  # hops that keep every node


def pruned(graph: CachedGraph, hops: int | str) -> CachedGraph:
    """A graph without the nodes that are further than ``hops`` from a configurable one, but for
    those where something happens that a configuration changes."""
    if hops == ALL:
        return graph
    count = len(graph.node_opcode)
    near = kept_nodes(count, graph.edges, graph.config_nodes, hops)
    nodes = np.union1d(near, graph.effects[:, 1:])
    position = np.zeros(count, np.int32)
    position[nodes] = np.arange(len(nodes), dtype=np.int32)
    kinds, *ends = graph.effects.T
    return replace(
        graph,
        node_feat=graph.node_feat[nodes],
        node_opcode=graph.node_opcode[nodes],
        edges=induced_edges(count, graph.edges, nodes),
        node_splits=np.unique(np.searchsorted(nodes, graph.node_splits)).astype(np.int32),
        config_nodes=position[graph.config_nodes],
        effects=np.stack([kinds, *(position[end] for end in ends)], axis=1),
    )


def without_effects(graph: CachedGraph, hops: int | str) -> CachedGraph:
    """A cached graph as the paper prunes it, of which nobody asks what configurations do.

    Without any effects it is pruned so already.
    """
    if not len(graph.effects):
        return graph
    none = {name: getattr(graph, name)[:0] for name in EFFECTS}
    return pruned(replace(graph, **none), hops)


def kept_nodes(
    node_count: int, edges: np.ndarray, config_nodes: np.ndarray, hops: int | str
) -> np.ndarray:
    """Positions of the nodes within ``hops`` of a configurable one, ascending, int64.

    Args:
        node_count: nodes of the whole graph.
        edges: (m, 2) positions; direction does not matter here.
        config_nodes: (k,) positions of the configurable nodes, all of which are kept.
        hops: distance in edges, 0 for the configurable nodes alone; ``all`` keeps every node,
            also those that no configurable one is connected to.
    """
    if hops == ALL:
        return np.arange(node_count)
    kept = np.zeros(node_count, bool)
    kept[config_nodes] = True
    for _ in range(int(hops)):
        reached = kept[edges].any(axis=1)
        if kept[edges[reached]].all():
            break
        kept[edges[reached]] = True
    return np.flatnonzero(kept)


def induced_edges(node_count: int, edges: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Edges between kept nodes, in their order, renumbered to positions among ``nodes``.

    Returns:
        (m', 2) int32.
    """
    position = np.full(node_count, -1, np.int32)
    position[nodes] = np.arange(len(nodes), dtype=np.int32)
    renumbered = position[edges].reshape(-1, 2)
    return renumbered[(renumbered >= 0).all(axis=1)]
