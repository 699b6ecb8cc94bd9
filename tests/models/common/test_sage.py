"""Message passing against a product with a dense adjacency matrix."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.cache.graph import neighbours
from tests.models.dense import adjacency_matrix


@st.composite
def edge_lists(draw) -> tuple[int, np.ndarray]:
    """A number of nodes and edges between them: repeated, both ways, loops, or none."""
    count = draw(st.integers(1, 8))
    node = st.integers(0, count - 1)
    edges = draw(st.lists(st.tuples(node, node), max_size=20))
    return count, np.array(edges, np.int32).reshape(-1, 2)


@given(edge_lists())
@settings(max_examples=80, deadline=None)
def test_neighbours_are_symmetric_and_each_stands_once(graph):
    count, edges = graph
    sources, pointers = neighbours(count, edges)
    expected = [np.flatnonzero(row).tolist() for row in adjacency_matrix(count, edges)]
    found = [sources[pointers[i] : pointers[i + 1]].tolist() for i in range(count)]
    assert found == expected
    assert (pointers[0], pointers[-1]) == (0, len(sources))
    assert (sources.dtype, pointers.dtype) == (np.int64, np.int64)
