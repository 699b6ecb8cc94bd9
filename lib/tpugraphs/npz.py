"""The official npz form: one file per layout graph or per tile kernel.

Readers validate before they believe; what they return has canonical types. The README of the
official dataset and its files differ in integer types, so any integer type is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from lib.files.errors import DataError
from lib.tpugraphs import archive, checks
from lib.tpugraphs.dataset import SUFFIXES

RUNTIME, NORMALIZERS = "config_runtime", "config_runtime_normalizers"
MAX_NAME = 150  # characters; leaves room for suffixes and for the names of temporary files


@dataclass(frozen=True, eq=False)
class LayoutGraph:
    """A graph and its layout configurations: n nodes, m edges, k configurable nodes, c runs.

    Attributes:
        name: the graph's name, its file's stem.
        node_feat: (n, 140) float32.
        node_opcode: (n,) uint8, 0 (unknown) to 120.
        edge_index: (m, 2) int64, rows [user, operand].
        node_config_ids: (k,) int64, distinct node positions.
        node_splits: (s,) int64; [0, n] if the file has none.
        node_config_feat: (c, k, 18) int8, values -1..5 (float32 on disk).
        config_runtime: (c,) int64 nanoseconds; all zero if unlabelled.
    """

    name: str
    node_feat: np.ndarray
    node_opcode: np.ndarray
    edge_index: np.ndarray
    node_config_ids: np.ndarray
    node_splits: np.ndarray
    node_config_feat: np.ndarray
    config_runtime: np.ndarray


@dataclass(frozen=True, eq=False)
class TileKernel:
    """A kernel and its tile configurations: n nodes, m edges, c runs.

    Attributes:
        name, node_feat, node_opcode, edge_index: as in :class:`LayoutGraph`.
        config_feat: (c, 24) float32.
        config_runtime: (c,) int64 nanoseconds; all zero if unlabelled.
        config_runtime_normalizers: (c,) int64, all positive, or all zero if there are none.
    """

    name: str
    node_feat: np.ndarray
    node_opcode: np.ndarray
    edge_index: np.ndarray
    config_feat: np.ndarray
    config_runtime: np.ndarray
    config_runtime_normalizers: np.ndarray


def stem(path: Path | str) -> str:
    """The graph's name: the file name without its last ``.npz`` (or ``.pb``); dots stay."""
    name = path.name if isinstance(path, Path) else path.rpartition("/")[2]
    suffix = next(filter(name.endswith, SUFFIXES), "")
    return name.removesuffix(suffix)


def safe_stems(names: Sequence[str]) -> list[str]:
    """Names of graphs for those of modules: only ``[A-Za-z0-9_.-]``, none hidden, all different.

    Other characters become ``_``. The second graph of a name gets ``-2`` behind it, and so on, in
    the order given. Names that differ in case only count as the same, for file systems that do not
    distinguish case.
    """
    stems: list[str] = []
    taken: set[str] = set()
    for name in names:
        base = re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:MAX_NAME]
        if not base or base[0] in ".-":
            base = f"_{base}"
        stem, count = base, 1
        while stem.lower() in taken:
            count += 1
            stem = f"{base}-{count}"
        taken.add(stem.lower())
        stems.append(stem)
    return stems


def read_layout(path: Path | str) -> LayoutGraph:
    """Read and validate a layout file; keys it does not know are ignored.

    A file with no configurations (c = 0) is accepted: a graph that nobody has measured.
    The configurations are decoded in chunks to int8, a quarter of their size on disk.

    Raises:
        DataError: the file is damaged, or a value in it is impossible.
    """
    with open_layout(path) as (graph, chunks):
        count, nodes = len(graph.config_runtime), len(graph.node_config_ids)
        digits, done = np.empty((count, nodes, checks.LAYOUT_FEATURES), np.int8), 0
        for chunk in chunks:
            digits[done : done + len(chunk)] = checks.layout_codes(path, chunk)
            done += len(chunk)
    return replace(graph, node_config_feat=digits)


@contextmanager
def open_layout(path: Path | str) -> Iterator[tuple[LayoutGraph, Iterator[np.ndarray]]]:
    """Open a layout file whose configurations may not fit in memory.

    Yields:
        The validated graph, its ``node_config_feat`` left empty, (0, k, 18); and an iterator
        over the configurations in pieces (r, k, 18), as stored and *not* validated: their
        reader passes them through :func:`lib.tpugraphs.checks.layout_codes`, or does as much.

    Raises:
        DataError: the file is damaged, or a value in it is impossible, also from the iterator.
    """
    with archive.opened(path) as file:
        headers = _headers(file, checks.LAYOUT_SPEC, "node_splits")
        lengths = _layout_lengths(path, headers)
        header = headers.pop("node_config_feat")
        arrays = file.read(headers)
        arrays.setdefault("node_splits", np.array([0, lengths["n"]]))
        arrays["node_config_feat"] = np.empty((0, lengths["k"], checks.LAYOUT_FEATURES), np.int8)
        graph = LayoutGraph(stem(path), **_layout_values(path, arrays))
        yield graph, file.chunks("node_config_feat", header)


def read_tile(path: Path | str) -> TileKernel:
    """Read and validate a tile file; raises as :func:`read_layout`."""
    with archive.opened(path) as file:
        headers = _headers(file, checks.TILE_SPEC, NORMALIZERS)
        _tile_lengths(path, headers)
        arrays = file.read(headers)
    arrays.setdefault(NORMALIZERS, np.zeros(len(arrays["config_feat"]), np.int64))
    return TileKernel(stem(path), **_tile_values(path, arrays))


def write_layout(path: Path | str, graph: LayoutGraph) -> None:
    """Write a layout file in the official form, whole or not at all; the same graph, same bytes;
    raises DataError if the graph could not be read back."""
    arrays = {key: getattr(graph, key) for key in (*checks.LAYOUT_SPEC, "node_splits")}
    _layout_lengths(path, arrays)
    _write(path, _layout_values(path, arrays))


def write_tile(path: Path | str, kernel: TileKernel) -> None:
    """Write a tile file; see :func:`write_layout`."""
    arrays = {key: getattr(kernel, key) for key in (*checks.TILE_SPEC, NORMALIZERS)}
    _tile_lengths(path, arrays)
    _write(path, _tile_values(path, arrays))


def _write(path: Path | str, values: Mapping[str, np.ndarray]) -> None:
    floats = ("node_feat", "node_config_feat", "config_feat")
    dtypes = {"node_opcode": "|u1", **dict.fromkeys(floats, "<f4")}
    arrays = {key: value.astype(dtypes.get(key, "<i8"), "C") for key, value in values.items()}
    archive.write_arrays(path, arrays)


def _headers(file: archive.Archive, spec: checks.Spec, optional: str) -> dict[str, archive.Header]:
    keys = [*spec, optional] if optional in file else [*spec]
    return {key: file.header(key, f"the keys {', '.join(spec)}") for key in keys}


def _layout_lengths(path: Path | str, arrays: Mapping[str, checks.Shaped]) -> dict[str, int]:
    present = {key: kind for key, kind in checks.LAYOUT_SPEC.items() if key in arrays}
    lengths = checks.check_shapes(path, present, arrays)
    if lengths["c"] and not lengths["k"]:
        raise DataError(path, "node_config_ids", "no nodes", "a node for the configurations")
    return lengths


def _tile_lengths(path: Path | str, arrays: Mapping[str, checks.Shaped]) -> None:
    spec = {**checks.TILE_SPEC, **checks.NORMALIZER_SPEC}
    present = {key: kind for key, kind in spec.items() if key in arrays}
    if not checks.check_shapes(path, present, arrays)["c"]:
        raise DataError(path, "config_feat", "no configurations", "at least one")


def _layout_values(path: Path | str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    nodes = len(arrays["node_feat"])
    return {
        **checks.graph_arrays(path, arrays),
        "node_config_ids": checks.config_ids(path, arrays["node_config_ids"], nodes),
        "node_splits": checks.splits(path, arrays["node_splits"], nodes),
        "node_config_feat": checks.layout_codes(path, arrays["node_config_feat"]),
        "config_runtime": checks.runtimes(path, RUNTIME, arrays[RUNTIME]),
    }


def _tile_values(path: Path | str, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    bounds = checks.finite(path, "config_feat", arrays["config_feat"])
    return {
        **checks.graph_arrays(path, arrays),
        "config_feat": checks.check_integers(path, "config_feat", bounds),
        "config_runtime": checks.runtimes(path, RUNTIME, arrays[RUNTIME]),
        NORMALIZERS: checks.normalizers(path, NORMALIZERS, arrays[NORMALIZERS]),
    }
