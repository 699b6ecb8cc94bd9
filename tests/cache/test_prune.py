"""Pruning against a breadth-first search and a filter of edges, node by node."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.cache.prune import induced_edges, kept_nodes

HOPS = st.sampled_from([0, 1, 2, 3, "all"])


@st.composite
def graphs(draw) -> tuple[int, np.ndarray, np.ndarray]:
    """Number of nodes, edges (repeated ones and loops too) and at least one configurable node."""
    count = draw(st.integers(1, 14))
    node = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=20))
    chosen = draw(st.lists(node, min_size=1, max_size=3, unique=True))
    return count, np.array(edges, np.int64).reshape(-1, 2), np.array(chosen, np.int64)


def distances(count: int, edges: np.ndarray, chosen: np.ndarray) -> list[float]:
    """Of each node to the nearest chosen one, edges walked in both directions."""
    found = [0 if node in chosen else float("inf") for node in range(count)]
    for _ in range(count):
        for a, b in [*edges.tolist(), *edges[:, ::-1].tolist()]:
            found[b] = min(found[b], found[a] + 1)
    return found


@given(graphs(), HOPS)
@settings(max_examples=150, deadline=None)
def test_kept_nodes_are_those_within_reach(graph, hops):
    count, edges, chosen = graph
    kept = kept_nodes(count, edges, chosen, hops)
    far = distances(count, edges, chosen)
    expected = [node for node, d in enumerate(far) if hops == "all" or d <= hops]
    assert kept.tolist() == expected
    assert set(chosen.tolist()) <= set(kept.tolist())
    assert kept.dtype == np.int64


@given(graphs(), HOPS)
@settings(max_examples=100, deadline=None)
def test_induced_edges_are_those_between_kept_nodes(graph, hops):
    count, edges, chosen = graph
    kept = kept_nodes(count, edges, chosen, hops)
    found = induced_edges(count, edges, kept)
    place = {node: index for index, node in enumerate(kept.tolist())}
    expected = [[place[a], place[b]] for a, b in edges.tolist() if a in place and b in place]
    assert found.tolist() == expected
    assert found.shape == (len(expected), 2)
    assert found.dtype == np.int32
