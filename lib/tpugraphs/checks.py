"""Checks of the arrays of a graph after they are read and before they are written.

Every node feature is a 64-bit integer that was rounded to float32 (FORMAT.md, section 4). Those
that later stages compute with have narrower ranges: they are shapes, sizes in memory and
dimension numbers, and who indexes with a negative one gets another dimension, or none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np

from lib.files.errors import DataError
from lib.tpugraphs import opcodes
from lib.tpugraphs.encoding import FEATURE_NAMES

NODE_FEATURES = 140
LAYOUT_FEATURES = 18
TILE_FEATURES = 24
LAYOUT_RANGE = (-1, 5)  # -1 is padding, 0..5 is a dimension of a tensor of rank 6

INTEGERS = -(2.0**63), 2.0**63
# No machine has as many; of any element type, their bytes can be counted in 64 bits.
MOST_ELEMENTS = 2.0**55
_FIRST = FEATURE_NAMES.index("shape_dimensions_0")
SHAPE = slice(_FIRST, _FIRST + 6)


def _range(feature: str) -> tuple[float, float]:
    """The least and the largest value of a node feature, by its name."""
    if feature.startswith("shape_element_type_is_"):
        return 0.0, 1.0
    if feature.startswith("shape_dimensions_"):
        return 0.0, MOST_ELEMENTS
    dimension = feature.startswith("convolution_dim_numbers_") and feature.endswith("_dim")
    return (0.0, 2.0**63) if dimension or feature.endswith("_count") else INTEGERS


RANGES = np.array([_range(name) for name in FEATURE_NAMES])  # (140, 2)
DTYPE_KINDS = {"float": "f", "integer": "iu", "number": "iuf"}

# key -> (kind of numbers, shape). A letter is one length throughout a file: n nodes, m edges,
# k configurable nodes, c configurations.
Spec = Mapping[str, tuple[str, tuple[str | int, ...]]]
GRAPH_SPEC: Spec = {
    "node_feat": ("float", ("n", NODE_FEATURES)),
    "node_opcode": ("integer", ("n",)),
    "edge_index": ("integer", ("m", 2)),
}
LAYOUT_SPEC: Spec = {
    **GRAPH_SPEC,
    "node_config_ids": ("integer", ("k",)),
    "node_config_feat": ("number", ("c", "k", LAYOUT_FEATURES)),
    "config_runtime": ("integer", ("c",)),
}
TILE_SPEC: Spec = {
    **GRAPH_SPEC,
    "config_feat": ("float", ("c", TILE_FEATURES)),
    "config_runtime": ("integer", ("c",)),
}
NORMALIZER_SPEC: Spec = {"config_runtime_normalizers": ("integer", ("c",))}


class Shaped(Protocol):
    """An array, or the header of one."""

    shape: tuple[int, ...]
    dtype: np.dtype


def check_shapes(path: Path | str, spec: Spec, arrays: Mapping[str, Shaped]) -> dict[str, int]:
    """The length that each letter of a spec stands for, in arrays or in headers of them; raises
    DataError if an array has another kind or shape than the spec gives it."""
    lengths: dict[str, int] = {}
    for key, (kind, shape) in spec.items():
        array = arrays[key]
        if array.dtype.kind not in DTYPE_KINDS[kind]:
            raise DataError(path, key, f"dtype {array.dtype}", f"any {kind} dtype")
        expected = tuple(lengths.get(n, n) if isinstance(n, str) else n for n in shape)
        fits = len(array.shape) == len(expected) and all(
            isinstance(size, str) or size == length
            for size, length in zip(expected, array.shape, strict=True)
        )
        if not fits:
            pretty = f"({', '.join(map(str, expected))})"
            raise DataError(path, key, f"shape {tuple(array.shape)}", pretty)
        lengths |= {n: x for n, x in zip(shape, array.shape, strict=True) if isinstance(n, str)}
    if lengths.get("n") == 0:
        raise DataError(path, "node_feat", "no nodes", "at least one")
    return lengths


def finite(path: Path | str, key: str, array: np.ndarray) -> np.ndarray:
    """The array as float32; raises DataError if a value is not finite, before or after."""
    with np.errstate(over="ignore", invalid="ignore"):
        array = np.ascontiguousarray(array, np.float32)
    good = np.isfinite(array)
    if not good.all():
        where = [int(index) for index in np.unravel_index(good.argmin(), array.shape)]
        raise DataError(path, key, f"{array[tuple(where)]} at {where}", "finite values")
    return array


def integers(
    path: Path | str, key: str, array: np.ndarray, low: int, high: int, dtype: type = np.int64
) -> np.ndarray:
    """The array as ``dtype``; raises DataError if a value is outside ``low..high``."""
    if array.size and (array.min() < low or array.max() > high):
        bad = array.min() if array.min() < low else array.max()
        raise DataError(path, key, bad, f"values in {low}..{high}")
    return np.ascontiguousarray(array, dtype)


def layout_codes(path: Path | str, array: np.ndarray) -> np.ndarray:
    """Layout features as int8; raises DataError if one is not an integer in -1..5."""
    low, high = LAYOUT_RANGE
    expected = f"integers in {low}..{high}"
    if not array.size:
        return array.astype(np.int8)
    smallest, largest = array.min(), array.max()  # NaN if one is NaN, which no comparison passes
    if not (smallest >= low and largest <= high):
        bad = largest if smallest >= low else smallest
        raise DataError(path, "node_config_feat", bad, expected)
    codes = array.astype(np.int8, copy=False)
    if not np.array_equal(codes, array):
        bad = array[codes != array][0]
        raise DataError(path, "node_config_feat", bad, expected)
    return codes


def runtimes(path: Path | str, key: str, array: np.ndarray) -> np.ndarray:
    """Runtimes as int64: all positive, or all zero where unlabelled; raises DataError else."""
    array = integers(path, key, array, 0, np.iinfo(np.int64).max)
    if (array == 0).any() and (array > 0).any():
        at = int(np.flatnonzero(array == 0)[0])
        raise DataError(path, key, f"0 at {at}", "all positive, or all zero (unlabelled)")
    return array


def normalizers(path: Path | str, key: str, array: np.ndarray) -> np.ndarray:
    """Normalizers as int64: all positive, or all zero where one of them is missing.

    Runtimes over some normalizers and not over others could not be compared.

    Raises:
        DataError: a negative one.
    """
    array = integers(path, key, array, 0, np.iinfo(np.int64).max)
    return array if (array > 0).all() else np.zeros_like(array)


def splits(path: Path | str, array: np.ndarray, nodes: int) -> np.ndarray:
    """Splits, (k,) or (1, k), as (k,) int64, non-decreasing in 0..nodes; raises DataError else."""
    if array.dtype.kind not in DTYPE_KINDS["integer"]:
        raise DataError(path, "node_splits", f"dtype {array.dtype}", "any integer dtype")
    flat = integers(path, "node_splits", array.reshape(-1), 0, nodes)
    if (np.diff(flat) < 0).any():
        raise DataError(path, "node_splits", "a decrease", "non-decreasing positions")
    return flat


def check_features(path: Path | str, features: np.ndarray) -> np.ndarray:
    """The node features, (n, 140) finite float32, if they can be those of a program.

    Raises:
        DataError: one is no integer, or out of the range of its column, or a node's output has
            more elements than any tensor.
    """
    low, high = RANGES.T
    check_integers(path, "node_feat", features)
    if (features.min(axis=0) < low).any() or (features.max(axis=0) > high).any():
        node, column = np.argwhere((features < low) | (features > high))[0]
        actual = f"{features[node, column]:g} in {FEATURE_NAMES[column]} of node {node}"
        expected = f"integers in {low[column]:g}..{high[column]:g}"
        raise DataError(path, "node_feat", actual, expected)
    elements = np.maximum(features[:, SHAPE], 1).prod(axis=1, dtype=np.float64)
    if (elements > MOST_ELEMENTS).any():
        node = int(elements.argmax())
        actual = f"a tensor of {elements[node]:g} elements at node {node}"
        raise DataError(path, "node_feat", actual, f"at most {MOST_ELEMENTS:g}")
    return features


def check_integers(path: Path | str, key: str, array: np.ndarray) -> np.ndarray:
    """The array, (r, w) finite float32, if all are 64-bit integers; raises DataError else."""
    low, high = INTEGERS
    bad = (np.trunc(array) != array) | (array < low) | (array > high)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        actual = f"{array[row, column]:g} at [{row}, {column}]"
        raise DataError(path, key, actual, "integers of 64 bits")
    return array


def graph_arrays(path: Path | str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Features, opcodes and edges in their canonical types; raises DataError on a bad value."""
    nodes = len(arrays["node_feat"])
    opcode = integers(path, "node_opcode", arrays["node_opcode"], 0, opcodes.MAX_ID, np.uint8)
    return {
        "node_feat": check_features(path, finite(path, "node_feat", arrays["node_feat"])),
        "node_opcode": opcode,
        "edge_index": integers(path, "edge_index", arrays["edge_index"], 0, nodes - 1),
    }


def config_ids(path: Path | str, array: np.ndarray, nodes: int) -> np.ndarray:
    """Configurable nodes as int64; raises DataError if one is out of range or stands twice."""
    if len(array) > nodes:
        raise DataError(path, "node_config_ids", f"{len(array)} ids", f"at most {nodes} nodes")
    array = integers(path, "node_config_ids", array, 0, nodes - 1)
    values, counts = np.unique(array, return_counts=True)
    if (counts > 1).any():
        raise DataError(path, "node_config_ids", f"{values[counts > 1][0]} twice", "distinct nodes")
    return array
