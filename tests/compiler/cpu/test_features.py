"""Features of layout copies and off-layout operations."""

from __future__ import annotations

from itertools import permutations

import numpy as np

from lib.compiler.cpu.chains import Chains
from lib.compiler.cpu.effects import CopySite, Reason
from lib.compiler.cpu.features import (
    COPY_FEATURES,
    GROUPS,
    OFF_LAYOUT_FEATURES,
    copy_features,
    off_layout_features,
)
from lib.compiler.cpu.moves import MovedTensor
from lib.compiler.graph import TensorGraph
from lib.compiler.orders import squeezed
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


def operation(chains, node, order, role=-1) -> dict[str, float]:
    found = off_layout_features(chains, node, order, role >= 0)
    return dict(zip(OFF_LAYOUT_FEATURES, found, strict=True))


def group(features: dict[str, float], name: str) -> dict[str, float]:
    """The features whose names begin so, by the rest of their names."""
    every = ((*one.partition(".")[::2], value) for one, value in features.items())
    return {rest: value for first, rest, value in every if first == name}


def test_names_and_ranges():
    shape = (4, 8, 16)
    chains, node = chains_of(shape)
    for names in (COPY_FEATURES, OFF_LAYOUT_FEATURES):
        assert len(set(names)) == len(names)
    for one in permutations(range(3)):
        for other in permutations(range(3)):
            if one != other:
                fields = (node, one, other, Reason.RESHAPE_OUTPUT, node)
                result = copy(chains, *fields)
                values = np.array([*result.values()])
                assert np.isfinite(values).all() and np.abs(values).max() <= 3
                reasons = group(result, "reason")
                assert len(reasons) == len(Reason)
                assert [name for name, value in reasons.items() if value] == ["reshape_output"]
        assert np.isfinite([*operation(chains, node, one).values()]).all()


def test_the_features_of_a_matrix_that_is_transposed_in_memory():
    chains, node = chains_of((64, 128))
    result = copy(chains, node, (1, 0), (0, 1), Reason.READER, node)
    assert group(result, "copy") == {
        "read_stride": 7 / 8,  # 128 elements between those that are written in a row
        "write_stride": 6 / 8,
        "fastest_size_after": 6 / 8,
        "fastest_size_before": 7 / 8,
        "common_run": 0,
        "bytes": 15 / 20,
        "fastest_changes": 1,
        "fastest_is_short_after": 0,
        "fastest_is_short_before": 0,
        "before_is_plain": 1,
        "after_is_plain": 0,
        "dimensions": 2 / 4,
        "second_size_after": 7 / 8,
        "second_read_stride": 0,
    }
    assert result["cache.places"] == 6 / 8, "64 rows before the rest of a line is read"


def test_a_copy_reads_in_jumps_or_writes_in_jumps():
    chains, node = chains_of((64, 128))
    there = copy(chains, node, (1, 0), (0, 1), Reason.CONFIGURED, node)
    back = copy(chains, node, (0, 1), (1, 0), Reason.READER, node)
    assert group(there, "writing") == group(back, "reading") != group(there, "reading")
    assert group(there, "reading") == group(back, "writing")
    assert (there["reading.stride"], there["writing.stride"]) == (0, 6 / 8)


def test_the_features_of_operations_off_their_layout():
    chains, node = chains_of((64, 128))
    off = operation(chains, node, (0, 1))
    assert group(off, "operation") == {
        "moves_data": 0,
        "is_off_layout": 1,
        "fastest_size": 6 / 8,
        "plain_fastest_stride": 6 / 8,  # rows are now what is apart
        "bytes": 15 / 20,
        "rank": 2 / 4,
    }
    assert [name for name, value in group(off, "opcode").items() if value] == ["function"]


def test_a_configured_layout_that_fits_no_tensor_is_a_kind_of_its_own():
    chains, node = chains_of((64, 128))
    misfit = operation(chains, node, (), role=2)
    assert not any(group(misfit, "opcode").values())
    assert not misfit["operation.moves_data"] and not misfit["operation.is_off_layout"]


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


def test_dimensions_of_one_element_are_passed_over():
    assert squeezed((2, 1, 0), (64, 1, 128)) == (2, 0)
    (chains, node), (other, same) = chains_of((64, 128)), chains_of((64, 1, 128))
    expected = copy(chains, node, (1, 0), (0, 1), Reason.CONFIGURED, node)
    assert copy(other, same, (2, 1, 0), (1, 0, 2), Reason.CONFIGURED, same) == expected


def test_what_made_the_tensor_tells():
    made = Builder()
    x = made.add("parameter", (8, 16))
    nodes = [x, made.add("tanh", (8, 16), x), made.add("iota", (8, 16))]
    nodes.append(made.add("dot", (8, 16), x, made.add("parameter", (16, 16))))
    nodes.append(made.add("add", (8, 16), x, x))
    chains = Chains(TensorGraph.of(made.graph([], [[]])))
    for node, name in zip(
        nodes, ("parameter", "function", "constant", "product", "other"), strict=True
    ):
        result = copy(chains, node, (1, 0), (0, 1), Reason.CONFIGURED, node)
        writer, reader = group(result, "writer"), group(result, "reader")
        assert tuple(writer) == GROUPS and writer == reader, "it reads itself"
        assert [one for one, value in writer.items() if value] == [name]
