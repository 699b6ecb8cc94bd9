"""How large official data are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.scoring.expected import OFFICIAL_TEST
from lib.tpugraphs.sizes import CONFIGURABLE, OFFICIAL_SIZES, official_graphs


@pytest.mark.parametrize("collection", OFFICIAL_SIZES)
def test_means_and_bounds_are_those_of_the_table(collection):
    sizes, graphs = OFFICIAL_SIZES[collection], official_graphs(collection)
    by_split = {one: sum(g.split == one for g in graphs) for one in ("train", "valid", "test")}
    assert tuple(by_split.values()) == sizes.graphs
    assert by_split["test"] == OFFICIAL_TEST[collection]
    for name in ("nodes", "configurations"):
        found, wanted = np.array([getattr(g, name) for g in graphs]), getattr(sizes, name)
        assert found.mean() == pytest.approx(wanted.mean, rel=0.02)
        assert wanted.least <= found.min() < found.max() <= wanted.most


@given(st.sampled_from(sorted(OFFICIAL_SIZES)), st.floats(0.001, 1), st.integers(0, 9))
def test_a_share(collection, share, seed):
    sizes, graphs = OFFICIAL_SIZES[collection], official_graphs(collection, share, seed)
    assert len(graphs) == sum(max(1, round(share * files)) for files in sizes.graphs)
    assert graphs == official_graphs(collection, share, seed)
    for one in graphs:
        if collection == "tile-xla":
            assert one.configurable == 0
        else:
            assert 2 <= one.configurable <= max(2, CONFIGURABLE[1] * one.nodes)
