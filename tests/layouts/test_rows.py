"""Features of moves and states."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from lib.layouts.chains import Chains
from lib.layouts.found import REASONS
from lib.layouts.locality import LOCALITY_FEATURES
from lib.layouts.orders import squeezed
from lib.layouts.program import Program
from lib.layouts.rows import (
    CHAIN_FEATURES,
    GROUPS,
    MOVE_BASICS,
    MOVE_FEATURES,
    STATE_FEATURES,
    move_features,
    state_features,
)

from .builders import Builder


def chains_of(shape, layout=None) -> tuple[Chains, int]:
    made = Builder()
    x = made.add("parameter", shape)
    named = {f"layout_minor_to_major_{place}": d for place, d in enumerate(layout or ())}
    node = made.add("tanh", shape, x, **named)
    return Chains(Program.of(made.graph([], [[]]))), node


def test_widths_and_ranges():
    shape, first = (4, 8, 16), MOVE_BASICS + LOCALITY_FEATURES + CHAIN_FEATURES
    chains, node = chains_of(shape)
    for one in permutations(range(3)):
        for other in permutations(range(3)):
            if one != other:
                found = move_features(chains, node, one, other, 3, node)
                assert len(found) == MOVE_FEATURES
                assert np.isfinite(found).all() and np.abs(found).max() <= 3
                assert found[first : first + REASONS] == [reason == 3 for reason in range(REASONS)]
        assert len(state_features(chains, node, one, one)) == STATE_FEATURES


def test_names_of_dimensions_do_not_matter():
    """The same tensor with its dimensions renamed, and its own layout with them."""
    shape = (4, 8, 16)
    for names in permutations(range(3)):
        renamed = tuple(shape[names.index(d)] for d in range(3))
        chains, node = chains_of(shape)
        other, same = chains_of(renamed, tuple(names[d] for d in (2, 1, 0)))
        for before, after in [((2, 1, 0), (0, 1, 2)), ((1, 2, 0), (2, 0, 1))]:
            expected = move_features(chains, node, before, after, 0, node)
            orders = [tuple(names[d] for d in order) for order in (before, after)]
            assert move_features(other, same, *orders, 0, same) == expected


def test_a_move_across_memory_looks_so():
    chains, node = chains_of((64, 128))
    apart, *_ = move_features(chains, node, (1, 0), (0, 1), 0, node)
    assert apart == 7 / 8, "128 elements between those that are written in a row"
    chains, node = chains_of((64, 1, 128))
    assert squeezed((2, 1, 0), (64, 1, 128)) == (2, 0)


def test_what_made_the_tensor_tells():
    made = Builder()
    x = made.add("parameter", (8, 16))
    nodes = [x, made.add("tanh", (8, 16), x), made.add("iota", (8, 16))]
    nodes.append(made.add("dot", (8, 16), x, made.add("parameter", (16, 16))))
    chains = Chains(Program.of(made.graph([], [[]])))
    first = MOVE_FEATURES - 2 * (len(GROUPS) + 1)
    kinds = []
    for node in nodes:
        found = move_features(chains, node, (1, 0), (0, 1), 0, node)
        made_by, read_by = np.split(np.array(found[first:]), 2)
        assert made_by.sum() == 1 and (made_by == read_by).all(), "it reads itself"
        kinds.append(int(made_by.argmax()))
    assert len(set(kinds)) == len(nodes)
