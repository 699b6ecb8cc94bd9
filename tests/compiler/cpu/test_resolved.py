"""What stage 1 works out of a program's configurations: the same however it is cut."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.cache.prune import pruned, without_effects
from lib.compiler.cpu import resolved
from tests.compiler.builders import random_programs
from tests.compiler.builders import resolved as with_effects

COPY, OFF_LAYOUT, REPEATED = range(3)


@pytest.mark.parametrize("together", [1, 2])
@given(program=random_programs())
@settings(deadline=None, max_examples=20)
def test_effects_are_the_same_in_parts(together, program):
    made, configurable, configured = program
    graph = made.graph(configurable, configured)
    whole = resolved.effects_of(graph)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resolved, "TOGETHER", together)
        parts = resolved.effects_of(graph)
    for number in range(len(graph.cells)):
        assert rows_of(whole, number) == rows_of(parts, number)


def rows_of(found: dict[str, np.ndarray], configuration: int) -> list[tuple]:
    """The effects of a configuration with all that is said of them, in an order of their own."""
    kinds = found["effects"][:, 0]
    ends = np.cumsum(np.array(resolved.WIDTHS)[kinds])
    features = np.split(found["effect_feat"], ends)[:-1]
    own = found["happens"][found["happens"][:, 0] == configuration, 1]
    return sorted(
        (*found["effects"][number], found["effect_sizes"][number], *features[number])
        for number in own.tolist()
    )


@given(program=random_programs())
@settings(deadline=None, max_examples=20)
def test_every_effect_happens_and_pairs_ascend(program):
    made, configurable, configured = program
    found = resolved.effects_of(made.graph(configurable, configured))
    effects, happens = found["effects"], found["happens"]
    assert set(happens[:, 1]) == set(range(len(effects)))
    assert (np.diff(happens[:, 0]) >= 0).all() and (np.diff(effects[:, 0]) >= 0).all()
    assert (effects[effects[:, 0] != COPY][:, 1] == effects[effects[:, 0] != COPY][:, 2]).all()
    assert (found["effect_sizes"] >= 0).all()


@given(program=random_programs())
@settings(deadline=None, max_examples=20)
def test_pruning_keeps_where_something_happens(program):
    made, configurable, configured = program
    graph = with_effects(made.graph(configurable, configured))
    small = pruned(graph, 1)
    near = set(graph.config_nodes.tolist())
    for user, operand in graph.edges.tolist():
        if {user, operand} & set(graph.config_nodes.tolist()):
            near |= {user, operand}
    kept = sorted(near | set(graph.effects[:, 1:].ravel().tolist()))
    assert np.array_equal(small.node_feat, graph.node_feat[kept])
    assert np.array_equal(np.array(kept)[small.effects[:, 1:]], graph.effects[:, 1:])
    for name in ("effect_feat", "effect_sizes", "happens"):
        assert np.array_equal(getattr(small, name), getattr(graph, name))


@given(program=random_programs(), hops=st.sampled_from([0, 1, "all"]))
@settings(deadline=None, max_examples=20)
def test_who_asks_for_no_effects_reads_what_the_paper_prunes(program, hops):
    made, configurable, configured = program
    plain = made.graph(configurable, configured)
    again = without_effects(pruned(with_effects(plain), hops), hops)
    for name, value in vars(pruned(plain, hops)).items():
        assert np.array_equal(getattr(again, name), value), name
