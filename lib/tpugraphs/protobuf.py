"""Measured modules as protobuf files: layout, tile, or an HLO module, bare or as XLA dumps it.

The rules of which modules and runs count are those of the official code (FORMAT.md, sections 6
and 7; section numbers below refer to it).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from lib.files.errors import DataError
from lib.tpugraphs import checks
from lib.tpugraphs.encoding import (
    EncodedGraph,
    aggregated,
    configurable_positions,
    encode_module,
    leading,
)
from lib.tpugraphs.messages import detect_kind, read_message
from lib.tpugraphs.npz import LayoutGraph, TileKernel, stem
from lib.tpugraphs.schema_pb2 import (
    ConfigProfile,
    HloModuleProto,
    TileSizeConfig,
)

TENSORS, TENSOR_DIMS = 3, 6  # of a node's layout configuration


def read_protobuf(path: Path | str, kind: str = "auto") -> LayoutGraph | list[TileKernel]:
    """Read a protobuf file of any kind: a graph of ``layout`` and ``hlo``, kernels of ``tile``.

    Args:
        path: the file.
        kind: ``layout`` (one ModuleTuningData), ``tile`` (one TuningData), ``hlo`` (one
            HloModuleProto, or the HloProto around it), or ``auto`` to go by the content.

    Raises:
        DataError: the bytes are not such a message, or break a rule of the format.
    """
    readers = {"layout": read_layout_pb, "tile": read_tile_pb, "hlo": read_hlo_pb}
    return readers[detect_kind(path) if kind == "auto" else kind](path)


def read_layout_pb(path: Path | str) -> LayoutGraph:
    """Read a ``ModuleTuningData`` file (section 6).

    Runs that failed or were not profiled are dropped; without a default among the other runs, all
    runs are, and the graph has no configurations. Its name is the module's, or the file's stem.

    Raises:
        DataError: the bytes or the values break a rule of the format.
    """
    tuning = read_message(path, "layout")
    if not tuning.HasField("module"):
        raise DataError(path, "module", "none", "an HLO module")
    runs = [
        (index, run)
        for index, run in enumerate(tuning.runs)
        if run.HasField("module_config") and not run.error and run.HasField("profile")
    ]
    for index, run in runs:
        if run.profile.compute_time_ns <= 0:
            where = f"runs[{index}].profile.compute_time_ns"
            raise DataError(path, where, run.profile.compute_time_ns, "a positive time")
    if not any(run.is_default for _, run in runs):
        runs = []
    ids = np.array(tuning.config_index_to_node, np.uint64)
    codes = np.empty((len(runs), len(ids), checks.LAYOUT_FEATURES), np.int8)
    for row, (index, run) in zip(codes, runs, strict=True):
        row[:] = _layout_row(path, index, run, len(ids))
    return _layout_graph(path, tuning.module, ids, codes, [run for _, run in runs])


def read_hlo_pb(path: Path | str) -> LayoutGraph:
    """Read an ``HloModuleProto`` or ``HloProto`` file as a graph without configurations (c = 0).

    Its configurable nodes are its convolutions, dots and reshapes.

    Raises:
        DataError: the bytes or the values break a rule of the format.
    """
    module = read_message(path, "hlo")
    ids = configurable_positions(module)
    codes = np.empty((0, len(ids), checks.LAYOUT_FEATURES), np.int8)
    return _layout_graph(path, module, ids, codes, [])


def read_tile_pb(path: Path | str) -> list[TileKernel]:
    """Read a ``TuningData`` file (section 7): its kernels, in file order.

    Modules that were hardly run, or that have a run without tile sizes, are skipped. The
    normalizer is looked up by the module's name, so that of two modules with one name the later
    gives it to both, as in the official code.

    Raises:
        DataError: the bytes or the values break a rule of the format.
    """
    measured: list[tuple[HloModuleProto, list[ConfigProfile]]] = []
    normalizers: dict[str, int] = {}
    for tuning in read_message(path, "tile").modules:
        tiled = all(run.op_config.HasField("tile_size_config") for run in tuning.runs)
        if not tuning.HasField("module") or len(tuning.runs) < 2 or not tiled:
            continue
        runs = [run for run in tuning.runs if not run.error and run.profile.compute_time_ns > 1]
        default = next((run for run in runs if run.is_default), None)
        if default is None:
            where = f"runs of module {tuning.module.name!r}"
            raise DataError(
                path, where, "no default among the runs that count", "one with is_default"
            )
        normalizers[tuning.module.name] = default.profile.compute_time_ns
        measured.append((tuning.module, runs))
    kernels = []
    for module, runs in measured:
        graph = _encode(path, module)
        rows = [tile_features(run.op_config.tile_size_config) for run in runs]
        kernel = TileKernel(
            name=module.name or stem(path),
            node_feat=graph.node_feat,
            node_opcode=graph.node_opcode,
            edge_index=graph.edge_index,
            config_feat=np.array(rows, np.int64).astype(np.float32),
            config_runtime=_times(runs),
            config_runtime_normalizers=np.full(len(runs), normalizers[module.name], np.int64),
        )
        kernels.append(kernel)
    return kernels


def tile_features(config: TileSizeConfig) -> list[int]:
    """The 24 tile features: three lists, each 6 leading values, sum, and product (0 if empty)."""
    bounds = (config.kernel_bounds, config.output_bounds, config.input_bounds)
    return [value for values in bounds for value in aggregated(values, 6, empty_product=0)]


def _layout_row(path: Path | str, index: int, run: ConfigProfile, count: int) -> np.ndarray:
    """Return the features of a run's nodes, (k, 18) int8: up to three tensors of six dimensions,
    -1 elsewhere."""
    nodes = run.module_config.layout_config.nodes
    where = f"runs[{index}].module_config.layout_config.nodes"
    if len(nodes) != count:
        raise DataError(path, where, f"{len(nodes)} nodes", f"{count}, as config_index_to_node")
    tensors = max((len(node.tensors) for node in nodes), default=0)
    if tensors > TENSORS:
        raise DataError(path, where, f"{tensors} tensors", f"at most {TENSORS}")
    features = np.full((count, TENSORS, TENSOR_DIMS), -1, np.int32)
    for row, node in zip(features, nodes, strict=True):
        for digits, tensor in zip(row, node.tensors, strict=False):
            digits[:] = leading(tensor.dims, TENSOR_DIMS, fill=-1)
    return checks.layout_codes(path, features.reshape(count, checks.LAYOUT_FEATURES))


def _layout_graph(
    path: Path | str,
    module: HloModuleProto,
    ids: np.ndarray,
    codes: np.ndarray,
    runs: Sequence[ConfigProfile],
) -> LayoutGraph:
    graph = _encode(path, module)
    if len(runs) and not len(ids):
        raise DataError(path, "config_index_to_node", "no nodes", "a node for the configurations")
    return LayoutGraph(
        name=module.name or stem(path),
        **vars(graph),
        node_config_ids=checks.config_ids(path, ids, len(graph.node_feat)),
        node_config_feat=codes,
        config_runtime=_times(runs),
    )


def _encode(path: Path | str, module: HloModuleProto) -> EncodedGraph:
    graph = encode_module(module, source=path)
    if not len(graph.node_opcode):
        raise DataError(path, "module.computations", "no instructions", "at least one")
    checks.check_features(path, graph.node_feat)
    return graph


def _times(runs: Iterable[ConfigProfile]) -> np.ndarray:
    return np.array([run.profile.compute_time_ns for run in runs], np.int64)
