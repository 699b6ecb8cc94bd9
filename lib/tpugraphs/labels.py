"""Number and runtimes of a raw file's configurations, without reading all of it."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import numpy as np

from lib.files.errors import DataError
from lib.tpugraphs import archive, checks
from lib.tpugraphs.npz import NORMALIZERS, RUNTIME, open_layout, safe_stems, stem
from lib.tpugraphs.protobuf import read_protobuf


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
    if not isinstance(content, list):
        return {stem(path): content.config_runtime}
    kernels = [kernel for kernel in content if len(kernel.config_runtime)]
    names = safe_stems([kernel.name for kernel in kernels])
    times = [_normalized(k.config_runtime, k.config_runtime_normalizers) for k in kernels]
    return dict(zip(names, times, strict=True))


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
        if NORMALIZERS in file:
            headers[NORMALIZERS] = file.header(NORMALIZERS)
        arrays = file.read(headers)
    times = checks.runtimes(path, RUNTIME, arrays[RUNTIME])
    if NORMALIZERS not in arrays:
        return times
    normalizers = checks.normalizers(path, NORMALIZERS, arrays[NORMALIZERS])
    if normalizers.shape != times.shape:
        raise DataError(path, NORMALIZERS, normalizers.shape, f"{times.shape}, as {RUNTIME}")
    return _normalized(times, normalizers)


def _normalized(times: np.ndarray, normalizers: np.ndarray) -> np.ndarray:
    return times / normalizers if normalizers.any() else times


def _runtime_header(file: archive.Archive) -> archive.Header:
    header = file.header(RUNTIME, "the runtimes")
    if len(header.shape) != 1:
        raise DataError(file.path, RUNTIME, f"shape {header.shape}", "one dimension")
    return header
