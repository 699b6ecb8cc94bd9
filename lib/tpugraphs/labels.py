"""Runtimes of a raw file's configurations, whatever its form."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np

from lib.tpugraphs.npz import open_layout, stem
from lib.tpugraphs.protobuf import read_layout_pb
from lib.tpugraphs.tiles import read_kernels


def read_runtimes(path: Path, tiles: bool) -> dict[str, np.ndarray]:
    """Return runtimes of each graph's configurations, by name: (c,) int64 ns, all zero if they are
    unlabelled.

    Of a tile kernel they are divided by their normalizers, (c,) float64, because its runs came
    from several machines.

    Raises:
        DataError: if the file is damaged.
    """
    if tiles:
        return {
            kernel.name: kernel.config_runtime / np.maximum(kernel.config_runtime_normalizers, 1)
            for kernel in read_kernels(path)
        }
    if path.suffix != ".npz":
        return {stem(path): read_layout_pb(path).config_runtime}
    with open_layout(path) as (graph, _):
        return {graph.name: graph.config_runtime}


def configurations_alike(path: Path) -> bool:
    """Return whether all configurations of a layout graph's file are the same; raises DataError.

    Of an npz they are read up to the first one that differs, or not much further.
    """
    if path.suffix != ".npz":
        rows = read_layout_pb(path).node_config_feat
        return not (rows != rows[:1]).any()
    with open_layout(path) as (_, chunks):
        first = next(chunks, np.empty(0))
        chunks = chain([first], chunks)
        return not any((chunk != first[:1]).any() for chunk in chunks)
