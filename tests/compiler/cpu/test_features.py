"""Features of layout copies and off-layout operations."""

from __future__ import annotations

from itertools import permutations

from lib.compiler.cpu.chains import Chains
from lib.compiler.cpu.effects import CopySite, Reason
from lib.compiler.cpu.features import (
    COPY_FEATURES,
    OFF_LAYOUT_FEATURES,
    copy_features,
    off_layout_features,
)
from lib.compiler.cpu.moves import MovedTensor
from lib.compiler.graph import TensorGraph
from tests.compiler.builders import Builder


def chains_of(shape, layout=None) -> tuple[Chains, int]:
    made = Builder()
    x = made.add("parameter", shape)
    named = {f"layout_minor_to_major_{place}": d for place, d in enumerate(layout or ())}
    node = made.add("tanh", shape, x, **named)
    return Chains(TensorGraph.of(made.graph([], [[]]))), node


def copy(chains, tensor, before, after, reason, reader) -> dict[str, float]:
    graph = chains.graph
    moved = MovedTensor(graph.shapes[tensor], graph.plain[tensor], float(graph.bytes[tensor]))
    site = CopySite(tensor, reason, reader)
    (found,) = copy_features(chains, [site], [(moved, before, after)]).tolist()
    return dict(zip(COPY_FEATURES, found, strict=True))


def operation(chains, node, order) -> dict[str, float]:
    found = off_layout_features(chains, node, order)
    return dict(zip(OFF_LAYOUT_FEATURES, found, strict=True))


def group(features: dict[str, float], name: str) -> dict[str, float]:
    """The features whose names begin so, by the rest of their names."""
    every = ((*one.partition(".")[::2], value) for one, value in features.items())
    return {rest: value for first, rest, value in every if first == name}


def test_names_of_dimensions_do_not_matter():
    """The same tensor with its dimensions renamed, and its own layout with them."""
    shape = (4, 8, 16)
    for names in permutations(range(3)):
        renamed = tuple(shape[names.index(d)] for d in range(3))
        chains, node = chains_of(shape)
        other, same = chains_of(renamed, tuple(names[d] for d in (2, 1, 0)))
        for before, after in [((2, 1, 0), (0, 1, 2)), ((1, 2, 0), (2, 0, 1))]:
            orders = [tuple(names[d] for d in order) for order in (before, after)]
            expected = copy(chains, node, before, after, Reason.CONFIGURED, node)
            assert copy(other, same, *orders, Reason.CONFIGURED, same) == expected
