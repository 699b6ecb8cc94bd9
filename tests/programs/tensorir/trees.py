"""Trees for tests: nested lists as written by hand, and random ones."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from lib.programs.tensorir.tree import COLUMNS, LEAF, NO_ROW, SERIAL, Forest, from_nodes


def nodes_of(bodies: list, depth: int = 0, rows: list[int] | None = None) -> list[tuple]:
    """Nodes of nested lists: a list is a loop, ``"x"`` a leaf with features, ``"0"`` one without.

    A loop's iterations are two more than the loops around it are many.
    """
    rows = [0] if rows is None else rows
    found = []
    for body in bodies:
        if isinstance(body, list):
            found.append((depth, SERIAL, depth + 2, 0, NO_ROW))
            found += nodes_of(body, depth + 1, rows)
        else:
            row = rows[0] if body == "x" else NO_ROW
            rows[0] += body == "x"
            found.append((depth, LEAF, 1, 0, row))
    return found


def tree(bodies: list) -> Forest:
    """One tree of nested lists, see :func:`nodes_of`."""
    return from_nodes(nodes_of(bodies))


def joined(trees: list[Forest]) -> Forest:
    """Several trees as one forest."""
    columns = [np.concatenate([getattr(t, name) for t in trees]) for name in COLUMNS]
    sizes = np.array([t.nodes for t in trees])
    return Forest(*columns, np.cumsum(sizes) - sizes)


bodies = st.lists(
    st.recursive(
        st.sampled_from(["x", "0"]), lambda inner: st.lists(inner, min_size=1, max_size=3)
    ),
    min_size=1,
    max_size=3,
)
