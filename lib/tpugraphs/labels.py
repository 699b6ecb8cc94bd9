"""Number and runtimes of a raw file's configurations, without reading all of it."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np

from lib.files.errors import DataError
from lib.tpugraphs import archive, checks
from lib.tpugraphs.npz import TileKernel, open_layout, safe_stems, stem
from lib.tpugraphs.protobuf import read_protobuf

RUNTIME, NORMALIZER = "config_runtime", "config_runtime_normalizers"


def count_configurations(path: Path) -> dict[str, int]:
    """Configurations of each graph in a file, by name; of an npz only a header is read.
    Raises DataError."""
    if path.suffix == ".npz":
        with archive.opened(path) as file:
            return {stem(path): _runtime_header(file).shape[0]}
    return {name: len(values) for name, values in read_runtimes(path).items()}


def read_runtimes(path: Path) -> dict[str, np.ndarray]:
    """Runtimes of each graph's configurations, by name: (c,) int64 ns, all zero if unlabelled.

    Of a tile kernel they are divided by their normalizers, (c,) float64, because its runs came
    from several machines.

    Raises:
        DataError: if the file is damaged.
    """
    if path.suffix == ".npz":
        return {stem(path): _npz_runtimes(path)}
    content = read_protobuf(path)
    if isinstance(content, list):
        kernels = [kernel for kernel in content if len(kernel.config_runtime)]
        names = safe_stems([kernel.name for kernel in kernels])
        return {n: _normalized(kernel) for n, kernel in zip(names, kernels, strict=True)}
    return {stem(path): content.config_runtime}


def configurations_alike(path: Path) -> bool:
    """Return whether all configurations of a layout graph's file are the same; raises DataError.

    Of an npz they are read up to the first one that differs, or not much further.
    """
    if path.suffix != ".npz":
        rows = read_protobuf(path, "layout").node_config_feat
        return not (rows != rows[:1]).any()
    with open_layout(path) as (_, chunks):
        first = next(chunks, np.empty(0))
        chunks = chain([first], chunks)
        return not any((chunk != first[:1]).any() for chunk in chunks)


def _npz_runtimes(path: Path) -> np.ndarray:
    with archive.opened(path) as file:
        headers = {RUNTIME: _runtime_header(file)}
        if NORMALIZER in file:
            headers[NORMALIZER] = file.header(NORMALIZER)
        arrays = file.read(headers)
    times = checks.runtimes(path, RUNTIME, arrays[RUNTIME])
    if NORMALIZER not in arrays:
        return times
    normalizers = checks.normalizers(path, NORMALIZER, arrays[NORMALIZER])
    if normalizers.shape != times.shape:
        raise DataError(path, NORMALIZER, normalizers.shape, f"{times.shape}, as {RUNTIME}")
    return times / normalizers if normalizers.any() else times


def _normalized(kernel: TileKernel) -> np.ndarray:
    normalizers = kernel.config_runtime_normalizers
    return kernel.config_runtime / normalizers if normalizers.any() else kernel.config_runtime


def _runtime_header(file: archive.Archive) -> archive.Header:
    header = file.header(RUNTIME, "the runtimes")
    if len(header.shape) != 1:
        raise DataError(file.path, RUNTIME, f"shape {header.shape}", "one dimension")
    return header
