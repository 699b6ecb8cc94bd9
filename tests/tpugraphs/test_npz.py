"""The npz form: what is written is read back, and good files of other writers are read too."""

from __future__ import annotations

import zipfile
from dataclasses import fields, replace

import numpy as np
import pytest

from lib.files.errors import DataError
from lib.tpugraphs.npz import (
    read_layout,
    read_tile,
    safe_stems,
    write_layout,
    write_tile,
)
from tests.tpu import PROGRAM, kernels
from tests.tpugraphs.builders import layout_graph, members, npy, rezip, tile_kernel
from tests.tpugraphs.conftest import load, same_bits


def assert_same(actual, expected):
    for field in fields(expected):
        if field.name != "name":
            same = same_bits(getattr(actual, field.name), getattr(expected, field.name))
            assert same, field.name


def rewritten(tmp_path, **changed: np.ndarray):
    """The small layout graph as a file, with some arrays replaced."""
    write_layout(tmp_path / "good.npz", layout_graph())
    parts = members(tmp_path / "good.npz")
    return rezip(tmp_path / "g.npz", parts | {key: npy(value) for key, value in changed.items()})


def test_layout_round_trip(tmp_path):
    path = tmp_path / "a.b.npz"
    write_layout(path, layout_graph())
    assert_same(read_layout(path), layout_graph())
    assert read_layout(path).name == "a.b"
    assert read_layout(path).config_runtime.all()
    assert [file.name for file in tmp_path.iterdir()] == ["a.b.npz"]


def test_written_types_are_the_official_ones(tmp_path):
    write_layout(tmp_path / "a.npz", layout_graph())
    types = {key: value.dtype.str for key, value in load(tmp_path / "a.npz").items()}
    integers = ("edge_index", "node_config_ids", "node_splits", "config_runtime")
    floats = ("node_feat", "node_config_feat")
    expected = dict.fromkeys(integers, "<i8") | dict.fromkeys(floats, "<f4")
    assert types == expected | {"node_opcode": "|u1"}


def test_written_bytes_depend_on_the_graph_alone(tmp_path):
    for name in ("a.npz", "b.npz"):
        write_layout(tmp_path / name, layout_graph(name=name))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with zipfile.ZipFile(tmp_path / "a.npz") as file:
        assert {info.date_time for info in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {info.compress_type for info in file.infolist()} == {zipfile.ZIP_DEFLATED}


def test_bad_graph_is_not_written(tmp_path):
    graph = layout_graph()
    bad = replace(graph, edge_index=np.array([[0, 5]]))
    with pytest.raises(DataError, match="edge_index"):
        write_layout(tmp_path / "a.npz", bad)
    with pytest.raises(DataError, match="config_runtime_normalizers"):
        write_tile(
            tmp_path / "a.npz",
            replace(tile_kernel(), config_runtime_normalizers=np.full(4, -1)),
        )
    assert not list(tmp_path.iterdir())


def test_the_real_program_is_the_official_one(layout_golden):
    known = load(PROGRAM)
    assert same_bits(known.pop("node_feat"), layout_golden["node_feat_pad_minus1"])
    assert all(same_bits(value, layout_golden[key]) for key, value in known.items())


def test_real_kernels_are_the_official_ones(tile_golden):
    _, golden = tile_golden
    (kernel,) = (one for one in kernels() if one.name == str(golden["module_name"]))
    assert same_bits(kernel.node_feat, golden["node_feat_pad_minus1"])
    for key in ("node_opcode", "config_feat", "config_runtime"):
        assert same_bits(getattr(kernel, key), golden[key]), key
    assert same_bits(kernel.edge_index, golden["edge_index_insertion_order"])


@pytest.mark.parametrize("integer", ["u1", "i2", "<i4", ">i4", "<u8", ">i8"])
def test_any_integer_type_is_read(tmp_path, integer):
    graph = layout_graph()
    times = np.arange(1, 7, dtype=np.int64)
    keys = ("node_opcode", "edge_index", "node_config_ids", "node_splits")
    changed = {key: getattr(graph, key).astype(integer) for key in keys}
    path = rewritten(tmp_path, **changed, config_runtime=times.astype(integer))
    assert_same(read_layout(path), replace(graph, config_runtime=times))


def test_splits_may_be_a_row_or_absent(tmp_path):
    path = rewritten(tmp_path, node_splits=np.array([[0, 3, 5]]))
    assert_same(read_layout(path), layout_graph())
    parts = members(path)
    del parts["node_splits"]
    expected = replace(layout_graph(), node_splits=np.array([0, 5]))
    assert_same(read_layout(rezip(path, parts)), expected)


def test_unlabelled_and_unmeasured_files(tmp_path):
    path = rewritten(tmp_path, config_runtime=np.zeros(6, np.int64))
    assert not read_layout(path).config_runtime.any()
    write_layout(path, layout_graph(configs=0))
    graph = read_layout(path)
    assert graph.node_config_feat.shape == (0, 2, 18)
    assert not graph.config_runtime.any()
    zeros = np.zeros(4, np.int64)
    for normalizers in (zeros, zeros + 5):
        kernel = replace(
            tile_kernel(), config_runtime=zeros, config_runtime_normalizers=normalizers
        )
        write_tile(path, kernel)
        assert not read_tile(path).config_runtime.any()


@pytest.mark.parametrize("found", ["absent", "all zero", "one zero"])
def test_a_kernel_without_normalizers(tmp_path, found):
    write_tile(tmp_path / "t.npz", tile_kernel())
    parts = members(tmp_path / "t.npz")
    del parts["config_runtime_normalizers"]
    if found != "absent":
        values = np.zeros(4, np.int64) if found == "all zero" else np.array([5, 5, 0, 5])
        parts["config_runtime_normalizers"] = npy(values)
    kernel = read_tile(rezip(tmp_path / "u.npz", parts))
    assert_same(kernel, replace(tile_kernel(), config_runtime_normalizers=np.zeros(4, np.int64)))
    write_tile(tmp_path / "v.npz", kernel)
    assert_same(read_tile(tmp_path / "v.npz"), kernel)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["fusion.232", "a b/c:d"], ["fusion.232", "a_b_c_d"]),
        (["", ".hidden", "..", "-x", "é"], ["_", "_.hidden", "_..", "_-x", "_-2"]),
        (["a", "a", "a-2", "A"], ["a", "a-2", "a-2-2", "A-3"]),
        (["x" * 999], ["x" * 150]),
    ],
)
def test_safe_stems(given, expected):
    assert safe_stems(given) == expected
