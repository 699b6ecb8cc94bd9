"""What stage 1 takes, whatever reads the cache later can read too."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.files.errors import DataError
from lib.models.prices.inputs import ProductsGraph
from lib.models.segments.inputs import SegmentedGraph, segments_batch
from lib.models.tgraph.inputs import graph_tensors
from lib.models.tgraph_plus.inputs import CopiesGraph
from lib.ranking.baseline import moved_bytes
from lib.tpugraphs.checks import RANGES
from lib.tpugraphs.encoding import FEATURE_NAMES
from lib.tpugraphs.npz import LayoutGraph, read_layout, write_layout
from lib.tpugraphs.opcodes import ID_OF_NAME
from tests.graphs import compress
from tests.stages import REPOSITORY
from tests.synthetic import layout_graph

REAL = sorted((REPOSITORY / "data/xla-cpu/npz/layout/xla/random/train").glob("*.npz"))
# What later stages compute with, and what may stand there instead of what does.
COLUMNS = [
    place
    for place, name in enumerate(FEATURE_NAMES)
    if name.startswith(
        (
            "is_root",
            "shape_",
            "dimensions_",
            "window_window_reversal",
            "convolution_",
            "feature_group",
            "batch_group",
            "layout_",
        )
    )
]
VALUES = [-(2.0**70), -(2.0**63), -5, -1, 0, 0.5, 1, 2, 3, 4, 5, 6, 7, 64, 2.0**31, 2.0**55]
VALUES += [2.0**56, 2.0**63, 2.0**64, 3e38]
OPCODES = [0, 120, *(ID_OF_NAME[n] for n in ("add", "reduce", "gather", "broadcast", "constant"))]
OPCODES += [ID_OF_NAME[n] for n in ("transpose", "tuple", "parameter", "convolution", "dot")]
OPCODES += [ID_OF_NAME[n] for n in ("reshape", "concatenate", "while", "exponential")]


@pytest.fixture(scope="module")
def graphs() -> list[LayoutGraph]:
    smallest = sorted(REAL, key=lambda path: path.stat().st_size)[:2]
    real = [read_layout(path) for path in smallest]
    return [layout_graph("made", 5, nodes=12, configurations=4), *map(shortened, real)]


def shortened(graph: LayoutGraph) -> LayoutGraph:
    """Of four configurations."""
    few = {name: getattr(graph, name)[:4] for name in ("node_config_feat", "config_runtime")}
    return LayoutGraph(**{**vars(graph), **few})


def spoiled(graph: LayoutGraph, draw) -> LayoutGraph:
    """The graph with some features, opcodes, edges and layouts that nobody has seen."""
    arrays = {key: np.array(value) for key, value in vars(graph).items() if key != "name"}
    nodes, place = len(graph.node_opcode), st.integers(0, 10**6)
    sites, wild = arrays["node_config_ids"], draw(st.integers(0, 9)) == 0
    for _ in range(draw(st.integers(0, 12))):
        node = draw(place) % nodes
        if draw(st.booleans()):
            node = sites[draw(place) % len(sites)]
        column = draw(st.sampled_from(COLUMNS))
        low, high = (-np.inf, np.inf) if wild else RANGES[column]
        known = [one for one in VALUES if low <= one <= high and (wild or one == int(one))]
        arrays["node_feat"][node, column] = draw(st.sampled_from(known))
    for _ in range(draw(st.integers(0, 6))):
        node = draw(place) % nodes
        if draw(st.booleans()):
            node = sites[draw(place) % len(sites)]
        arrays["node_opcode"][node] = draw(st.sampled_from(OPCODES))
    for _ in range(draw(st.integers(0, 6))):
        edge = draw(place) % len(arrays["edge_index"])
        arrays["edge_index"][edge, draw(st.integers(0, 1))] = draw(place) % nodes
    for _ in range(draw(st.integers(0, 4))):
        tensor = draw(st.integers(0, 2))
        digits = draw(st.lists(st.integers(-1, 5), min_size=6, max_size=6))
        where = draw(place) % 4, draw(place) % len(sites), slice(6 * tensor, 6 * tensor + 6)
        arrays["node_config_feat"][where] = digits
    return LayoutGraph("spoiled", **arrays)


def read_by_all(graph: LayoutGraph, hops: int | str) -> None:
    """As stages 2 to 4 read it, by every model's way of seeing it."""
    cached = compress(graph, "train", hops)
    rows = np.arange(len(cached.cells))
    assert np.isfinite(moved_bytes(cached)).all()
    graph_tensors(cached).batch(rows)
    batch = ProductsGraph(cached).batch(rows)
    for name in ("features", "padding", "share"):
        assert np.isfinite(getattr(batch, name).numpy()).all(), name
    effects = CopiesGraph(cached).batch(rows)
    for name in ("features", "sizes"):
        assert np.isfinite(getattr(effects, name).numpy()).all(), name
    for size in (0, 5):
        list(segments_batch(SegmentedGraph(cached, size), rows).segments)


@settings(max_examples=80, deadline=None)
@given(draw=st.data(), which=st.integers(0, 2), hops=st.sampled_from([1, 2, "all"]))
def test_whatever_is_taken_can_be_read(graphs, tmp_path_factory, draw, which, hops):
    path = tmp_path_factory.getbasetemp() / "spoiled.npz"
    try:
        write_layout(path, spoiled(graphs[which], draw.draw))
    except DataError as error:
        assert error.field == "node_feat"
        return
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        read_by_all(read_layout(path), hops)
