"""Fused kernels of a raw file, and configurations of tiles to rank instead of their own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from lib.files.errors import DataError
from lib.tpugraphs import archive, checks
from lib.tpugraphs.messages import detect_kind
from lib.tpugraphs.npz import TileKernel, read_tile, safe_stems
from lib.tpugraphs.program import json_lines, object_in
from lib.tpugraphs.protobuf import read_tile_pb, tile_features
from lib.tpugraphs.schema_pb2 import TileSizeConfig

BOUNDS = ("kernel_bounds", "output_bounds", "input_bounds")  # in the order of the 24 features
LEADING = 6  # bounds of a list that stand in the features by themselves
LARGEST = 2**31 - 1
FEATURES = "config_feat"


def read_kernels(path: Path) -> list[TileKernel]:
    """The kernels of a file: one of an npz, all that were measured of a tuning protobuf.

    That of an npz is named after the file, those of a protobuf after their modules.

    Raises:
        DataError: the file is damaged, a value in it is impossible, or it has no kernel.
    """
    if path.suffix == ".npz":
        return [read_tile(path)]
    if (kind := detect_kind(path)) != "tile":
        actual = {"hlo": "an HLO module without tile sizes", "layout": "layouts"}[kind]
        raise DataError(path, "message", actual, "TuningData, of tile sizes")
    kernels = [kernel for kernel in read_tile_pb(path) if len(kernel.config_runtime)]
    if not kernels:
        raise DataError(path, "modules", "no measured kernel", "at least one")
    names = safe_stems([kernel.name for kernel in kernels])
    return [replace(kernel, name=name) for name, kernel in zip(names, kernels, strict=True)]


def with_bounds(kernel: TileKernel, path: Path) -> TileKernel:
    """A kernel with the configurations of a file in place of its own.

    The file is an npz with ``config_feat`` (c, 24), as the official tile files have it, or JSON
    lines, a configuration each: an object of ``BOUNDS``, each a list of whole numbers; one that is
    not named is empty.

    Raises:
        DataError: if the file is neither.
    """
    features = (_npz_bounds if path.suffix == ".npz" else _json_bounds)(path)
    if not len(features):
        raise DataError(path, "configurations", "none", "at least one")
    none = np.zeros(len(features), np.int64)
    return replace(
        kernel, config_feat=features, config_runtime=none, config_runtime_normalizers=none
    )


def bounds_of(features: np.ndarray) -> dict[str, list[int]]:
    """A configuration's bounds by list from its (24,) features: the first six, but for zeros at
    the end."""
    lists = np.asarray(features).reshape(len(BOUNDS), -1)[:, :LEADING].astype(np.int64)
    return {n: np.trim_zeros(b, "b").tolist() for n, b in zip(BOUNDS, lists, strict=True)}


def _npz_bounds(path: Path) -> np.ndarray:
    with archive.opened(path) as file:
        headers = {FEATURES: file.header(FEATURES, "configurations (c, 24)")}
        checks.check_shapes(path, {FEATURES: checks.TILE_SPEC[FEATURES]}, headers)
        arrays = file.read(headers)
    return checks.check_integers(path, FEATURES, checks.finite(path, FEATURES, arrays[FEATURES]))


def _json_bounds(path: Path) -> np.ndarray:
    rows = []
    for number, line in json_lines(path):
        bounds = object_in(path, number, line)
        for name, values in bounds.items():
            where = f"line {number}, {name[:60]}"
            if name not in BOUNDS:
                raise DataError(path, where, "no such list", f"one of {', '.join(BOUNDS)}")
            if not isinstance(values, list) or not all(
                type(bound) is int and 0 <= bound <= LARGEST for bound in values
            ):
                expected = "a list of whole numbers, such as [8, 128]"
                raise DataError(path, where, repr(values)[:60], expected)
        rows.append(tile_features(TileSizeConfig(**bounds)))
    features = np.array(rows, np.int64).reshape(-1, checks.TILE_FEATURES)
    return checks.check_integers(path, FEATURES, features.astype(np.float32))
