"""Layouts that name only some dimensions: nothing that a configuration says is lost."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.cache.compress import compress
from lib.compiler.graph import TensorGraph
from lib.compiler.hardware import HARDWARE
from lib.compiler.propagation import PROPAGATIONS
from lib.compiler.tables import MISFIT, UNSET, ProgramTables
from lib.inputs.copies import CopiesGraph
from lib.tpugraphs.npz import read_layout
from tests.compiler.builders import Builder
from tests.tpu import PROGRAM


def rows_of_features(graph, propagation: str, hardware: str) -> list[tuple]:
    """What the network reads of each configuration, whatever the order."""
    batch = CopiesGraph(graph, propagation, hardware).batch(np.arange(len(graph.cells)))
    found = []
    for configuration in range(batch.configurations):
        sides = []
        for table, shares, places in (
            (batch.copies, batch.copy_bytes, batch.copy_places),
            (batch.off_layout, batch.off_layout_bytes, batch.off_layout_places),
            (batch.repeated, batch.repeated_work, batch.repeated_places),
        ):
            own = places[places[:, 0] == configuration, 1]
            rows = np.concatenate([table[own].numpy(), shares[own, None].numpy()], axis=1)
            sides.append(tuple(sorted(row.tobytes() for row in rows)))
        found.append(tuple(sides))
    return found


@st.composite
def programs(draw):
    """A product of two tensors of some rank and distinct sizes, under layouts that are all
    different: of its output, its input and its kernel, each naming some of the dimensions."""
    rank = draw(st.integers(1, 6))
    made = Builder()
    sizes = draw(st.permutations(range(9, 9 + rank)))
    x, y = (made.add("parameter", tuple(sizes)) for _ in range(2))
    node = made.add("dot", tuple(sizes), x, y)
    # One less than all of them says the same as all.
    lengths = [length for length in range(rank + 1) if length != max(1, rank - 1) or rank == 1]
    layouts = st.sampled_from(lengths).flatmap(
        lambda length: st.permutations(range(rank)).map(lambda order: tuple(order[:length]))
    )
    wanted = draw(st.lists(st.tuples(layouts, layouts, layouts), min_size=2, max_size=8))
    plain = tuple(range(rank - 1, -1, -1))

    def meaning(layout):
        return layout and (*layout, *(d for d in plain if d not in layout))

    distinct = {tuple(map(meaning, three)): three for three in wanted}
    return made.graph([node], [[three] for three in distinct.values()]), len(distinct)


@settings(max_examples=60, deadline=None)
@given(program=programs(), propagation=st.sampled_from([*PROPAGATIONS]))
def test_different_configurations_have_different_features(program, propagation):
    """On TPUs, where every configured layout counts by itself."""
    graph, count = program
    assert len(set(rows_of_features(graph, propagation, "tpu"))) == count


@pytest.mark.parametrize("propagation", PROPAGATIONS)
def test_on_the_real_graph_as_many_rows_of_features_as_configurations(propagation):
    raw = read_layout(PROGRAM)
    graph = compress(raw, "train", "all", path=PROGRAM)
    distinct = len(np.unique(raw.node_config_feat.reshape(len(raw.node_config_feat), -1), axis=0))
    assert len(graph.cells) == distinct == 91
    assert len(set(rows_of_features(graph, propagation, "tpu"))) == distinct


def completed(rank: int, *layouts: tuple[int, ...]) -> list[tuple[int, ...] | int]:
    made = Builder()
    shape = tuple(range(2, 2 + rank))
    x = made.add("parameter", shape)
    node = made.add("reshape", shape, x)
    graph = TensorGraph.of(made.graph([node], [[((), (), ())]]))
    tables = ProgramTables.of(graph, HARDWARE["tpu"])
    digits = np.full((len(layouts), 6), -1)
    for row, layout in zip(digits, layouts, strict=True):
        row[: len(layout)] = layout
    numbers = tables.completion(tables.orders.numbers_of(digits)[:, None, None].repeat(3, 2))
    assert (numbers[:, 0, 2] != UNSET).tolist() == [len(layout) > 0 for layout in layouts]
    return [tables.orders.items[n] if n >= 0 else int(n) for n in numbers[:, 0, 0]]


def test_dimensions_that_are_not_named_follow_in_the_programs_order():
    assert completed(5, (1, 3), (), (4, 3, 2, 1, 0), (0,)) == [
        (1, 3, 4, 2, 0),
        UNSET,
        (4, 3, 2, 1, 0),
        (0, 4, 3, 2, 1),
    ]


@pytest.mark.parametrize("layout", [(5,), (0, 0), (0, 1, 2, 3, 4, 5), (4, 1, 4)])
def test_a_layout_that_the_tensor_cannot_have_is_not_taken_for_none(layout):
    assert completed(5, layout, ()) == [MISFIT, UNSET]


@pytest.mark.parametrize("propagation", PROPAGATIONS)
def test_a_layout_that_does_not_fit_has_features_of_its_own(propagation):
    made = Builder()
    x, y = made.add("parameter", (8, 16)), made.add("parameter", (16, 32))
    node = made.add("dot", (8, 32), x, y)
    graph = made.graph([node], [[((), (), ())], [((), (2, 1), ())], [((), (), (0, 0))]])
    none, *others = rows_of_features(graph, propagation, "tpu")
    assert none not in others


def test_orders_of_tiles_and_of_lines():
    cpu, tpu = HARDWARE["cpu"], HARDWARE["tpu"]
    shape = (1, 64, 1, 128)
    for one, other in permutations(permutations(range(4)), 2):
        if tpu.same_in_memory(one, other, shape):
            assert cpu.same_in_memory(one, other, shape)
            assert one[:2] == other[:2]
    assert tpu.same_in_memory((3, 1, 0, 2), (3, 1, 2, 0), shape)
    assert not tpu.same_in_memory((3, 1, 0, 2), (3, 0, 1, 2), shape)
    assert cpu.same_in_memory((3, 1, 0, 2), (3, 0, 1, 2), shape)
