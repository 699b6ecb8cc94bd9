"""Node features that later stages compute with, in the ranges of their columns."""

from __future__ import annotations

import numpy as np
import pytest

from lib.files.errors import DataError
from lib.tpugraphs.checks import check_features, check_integers
from lib.tpugraphs.encoding import FEATURE_NAMES
from lib.tpugraphs.npz import read_layout, read_tile
from lib.tpugraphs.protobuf import read_protobuf
from lib.tpugraphs.schema_pb2 import TuningData
from tests.tpugraphs.builders import (
    computation,
    instruction,
    layout_graph,
    layout_run,
    module,
    npy,
    rezip,
    tile_kernel,
    tile_run,
    tuning,
)

COLUMN = {name: place for place, name in enumerate(FEATURE_NAMES)}
# name: a value that cannot be there
BAD = {
    "is_root": 0.5,
    "shape_element_type_is_f32": 2,
    "shape_dimensions_0": -1,
    "shape_dimensions_5": 2.0**56,
    "shape_dimensions_product": 3e38,
    "window_size_2": 1.25,
    "window_window_reversal_true_count": -1,
    "convolution_dim_numbers_input_batch_dim": -1,
    "feature_group_count": -1,
    "layout_minor_to_major_5": 0.001,
}
# name: one that can, and is odd
GOOD = {
    "is_root": 0,
    "shape_dimensions_product": 0,
    "parameter_number": 2.0**63,
    "window_padding_low_0": -7,
    "convolution_dim_numbers_input_spatial_dims_0": -1,
    "slice_dims_limit_product": 2.0**63,
    "layout_minor_to_major_0": -1,
}


def with_value(features: np.ndarray, name: str, value: float) -> np.ndarray:
    changed = features.copy()
    changed[3, COLUMN[name]] = value
    return changed


@pytest.mark.parametrize("name", BAD)
@pytest.mark.parametrize("kind", ["layout", "tile"])
def test_a_feature_that_cannot_be_is_named(tmp_path, name, kind):
    graph = {"layout": layout_graph, "tile": tile_kernel}[kind]()
    parts = {key: npy(value) for key, value in vars(graph).items() if key != "name"}
    parts["node_feat"] = npy(with_value(graph.node_feat, name, BAD[name]))
    path = rezip(tmp_path / "x.npz", parts)
    with pytest.raises(DataError) as caught:
        {"layout": read_layout, "tile": read_tile}[kind](path)
    assert str(caught.value).startswith(f"{path}: node_feat: found {BAD[name]:g} ")
    assert "integers" in str(caught.value)


@pytest.mark.parametrize("name", GOOD)
def test_a_feature_that_is_odd_is_taken(name):
    features = with_value(layout_graph().node_feat, name, GOOD[name])
    assert check_features("x", features) is features


def test_a_tensor_of_more_elements_than_any():
    features = layout_graph().node_feat.copy()
    features[2, 21:27] = [2.0**30, 0, 2.0**20, 3, 1, 2.0**5]
    with pytest.raises(DataError, match=r"found a tensor of 1\.08086e\+17 elements at node 2"):
        check_features("x", features)
    features[2, 22] = -0.0
    features[2, 26] = 0
    check_features("x", features)


def test_tile_sizes_are_integers(tmp_path):
    kernel = tile_kernel()
    parts = {key: npy(value) for key, value in vars(kernel).items() if key != "name"}
    for value in (0.5, 1e20):
        bounds = kernel.config_feat.copy()
        bounds[2, 7] = value
        path = rezip(tmp_path / "x.npz", parts | {"config_feat": npy(bounds)})
        with pytest.raises(DataError, match=r"found .* at \[2, 7\], expected integers"):
            read_tile(path)
    assert check_integers("x", "config_feat", np.zeros((0, 24), np.float32)).shape == (0, 24)


@pytest.mark.parametrize("kind", ["layout", "tile", "hlo"])
def test_protobufs_are_checked_too(tmp_path, kind):
    hlo = module(computation("main", 1, instruction(1, "reshape", feature_group_count=-2)))
    runs = layout_run(9, [[]], default=True), tile_run(9, default=True)
    message = {
        "layout": tuning(hlo, runs[0], nodes=[0]),
        "tile": TuningData(modules=[tuning(hlo, runs[1], tile_run(8))]),
        "hlo": hlo,
    }[kind]
    path = tmp_path / "x.pb"
    path.write_bytes(message.SerializeToString())
    with pytest.raises(DataError, match="node_feat: found -2 in feature_group_count of"):
        read_protobuf(path, kind)
