"""Fused kernels of a raw file, and their configurations as people read them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from lib.files.errors import DataError
from lib.tpugraphs.messages import detect_kind
from lib.tpugraphs.npz import TileKernel, read_tile, safe_stems
from lib.tpugraphs.protobuf import read_tile_pb

BOUNDS = ("kernel_bounds", "output_bounds", "input_bounds")  # in the order of the 24 features
LEADING = 6  # bounds of a list that stand in the features by themselves


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


def bounds_of(features: np.ndarray) -> dict[str, list[int]]:
    """A configuration's bounds by list from its (24,) features: the first six, but for zeros at
    the end."""
    lists = np.asarray(features).reshape(len(BOUNDS), -1)[:, :LEADING].astype(np.int64)
    return {n: np.trim_zeros(b, "b").tolist() for n, b in zip(BOUNDS, lists, strict=True)}
