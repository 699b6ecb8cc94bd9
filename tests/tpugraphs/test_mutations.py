"""Mutated files: always a sound graph or a DataError, never another error or a hang."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.files.errors import DataError
from lib.tpugraphs.npz import LayoutGraph, read_layout, read_tile
from lib.tpugraphs.protobuf import read_protobuf
from lib.tpugraphs.schema_pb2 import TuningData
from tests.tpugraphs.builders import (
    chain,
    header,
    layout_run,
    members,
    npy,
    rezip,
    tile_run,
    tuning,
)


def check_believed(read, path):
    """A mutated file is refused with a DataError, or what is read is sound."""
    try:
        graph = read(path)
    except DataError as error:
        assert str(error).startswith(f"{path}: ")
        assert "\n" not in str(error)
        return
    nodes = len(graph.node_feat)
    assert np.isfinite(graph.node_feat).all()
    assert graph.node_feat.shape == (nodes, 140)
    assert graph.node_opcode.shape == (nodes,)
    assert (
        not graph.edge_index.size or 0 <= graph.edge_index.min() <= graph.edge_index.max() < nodes
    )
    if isinstance(graph, LayoutGraph):
        shape = (len(graph.config_runtime), len(graph.node_config_ids), 18)
        assert graph.node_config_feat.shape == shape
        assert ((graph.node_config_feat >= -1) & (graph.node_config_feat <= 5)).all()


flips = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(1, 255)), max_size=6)
names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8)
cuts = st.none() | st.floats(0, 1)
arrays = st.sampled_from(
    [
        np.float32(np.nan),
        np.full((5, 140), np.nan, np.float32),
        np.zeros((0, 140), np.float32),
        np.zeros((0, 2), np.int64),
        np.zeros((6, 2, 18), np.int8),
        np.zeros((2**10, 2, 18), np.float32),
        np.arange(5),
        np.arange(6) + 1,
        np.array(["a"] * 6),
        np.zeros(0, np.uint64),
    ]
).map(npy)
headers = st.builds(
    header,
    st.lists(st.sampled_from([0, 1, 2, 5, 6, 18, 140, 2**31, 2**63, -1]), max_size=4).map(tuple),
    st.sampled_from(["<f4", "|i1", ">i8", "|O", "|V8", "<U9", "nonsense", "<f4,<f4"]),
    st.sampled_from([(1, 0), (2, 0)]),
    st.binary(max_size=64),
)


def mutate(data: bytes, changes, cut) -> bytes:
    data = bytearray(data)
    for where, mask in changes if data else ():
        data[int(where * len(data))] ^= mask
    return bytes(data if cut is None else data[: int(cut * len(data))])


@pytest.mark.parametrize("kind", ["layout", "tile"])
@settings(max_examples=150, deadline=None)
@given(changes=flips, cut=cuts)
def test_mutated_bytes(folder, kind, changes, cut):
    path = folder / "mutated.npz"
    path.write_bytes(mutate((folder / f"{kind}.npz").read_bytes(), changes, cut))
    check_believed({"layout": read_layout, "tile": read_tile}[kind], path)


@pytest.mark.parametrize("kind", ["layout", "tile"])
@settings(max_examples=150, deadline=None)
@given(draw=st.data())
def test_mutated_members(folder, kind, draw):
    parts = members(folder / f"{kind}.npz")
    keys = st.sampled_from(sorted(parts))
    key = draw.draw(keys)
    action = draw.draw(st.sampled_from(["bytes", "header", "array", "rename", "swap"]))
    if action == "bytes":
        parts[key] = mutate(parts[key], draw.draw(flips), draw.draw(cuts))
    elif action == "header":  # all flips near the front
        parts[key] = mutate(parts[key][:128], draw.draw(flips), None) + parts[key][128:]
    elif action == "array":
        parts[key] = draw.draw(arrays | headers)
    elif action == "rename":
        parts[draw.draw(names)] = parts.pop(key)
    else:
        other = draw.draw(keys)
        parts[key], parts[other] = parts[other], parts[key]
    method = draw.draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
    path = rezip(folder / "mutated.npz", parts, method)
    check_believed({"layout": read_layout, "tile": read_tile}[kind], path)


LAYOUT_PB = tuning(
    chain(), layout_run(9, [[[0]], []], default=True), layout_run(8, [[], [[1]]]), nodes=(1, 2)
)
TILE_PB = TuningData(modules=[tuning(chain(), tile_run(9, default=True), tile_run(7))] * 2)


@pytest.mark.parametrize("message", [LAYOUT_PB, TILE_PB, chain()], ids=["layout", "tile", "hlo"])
@settings(max_examples=150, deadline=None)
@given(changes=flips, cut=cuts, kind=st.sampled_from(["auto", "layout", "tile", "hlo"]))
def test_mutated_protobuf(folder, message, changes, cut, kind):
    path = folder / "mutated.pb"
    path.write_bytes(mutate(message.SerializeToString(), changes, cut))
    try:
        read_protobuf(path, kind)
    except DataError as error:
        assert str(error).startswith(f"{path}: ")
