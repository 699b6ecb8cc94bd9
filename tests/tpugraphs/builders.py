"""Small messages and graphs to test with."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import numpy as np

from lib.tpugraphs.npz import LayoutGraph, TileKernel
from lib.tpugraphs.schema_pb2 import (
    ConfigProfile,
    HloComputationProto,
    HloInstructionProto,
    HloModuleProto,
    ModuleTuningData,
)

ELEMENT_TYPE = slice(2, 21)  # features that tell it, one of them 1


def instruction(number: int, opcode: str = "add", **fields) -> HloInstructionProto:
    return HloInstructionProto(id=number, opcode=opcode, name=f"{opcode}.{number}", **fields)


def computation(name: str, number: int, *instructions, root: int | None = None):
    last = instructions[-1].id if instructions else 0
    return HloComputationProto(
        name=name,
        id=number,
        instructions=instructions,
        root_id=last if root is None else root,
    )


def module(*computations, name: str = "m") -> HloModuleProto:
    return HloModuleProto(name=name, computations=computations)


def one(**fields) -> HloModuleProto:
    """A module of one instruction."""
    return module(computation("main", 1, instruction(7, **fields)))


def chain(name: str = "m") -> HloModuleProto:
    """parameter -> reshape -> convolution -> add, ids out of order."""
    return module(
        computation(
            "main",
            1,
            instruction(9, "parameter"),
            instruction(4, "reshape", operand_ids=[9]),
            instruction(6, "convolution", operand_ids=[4]),
            instruction(2, "add", operand_ids=[6, 6]),
        ),
        name=name,
    )


def layout_run(
    time: int, nodes: list[list[list[int]]], default: bool = False, error: bool = False
) -> ConfigProfile:
    run = ConfigProfile(is_default=default, error=error)
    run.profile.compute_time_ns = time
    run.module_config.SetInParent()
    for tensors in nodes:
        node = run.module_config.layout_config.nodes.add()
        for dims in tensors:
            node.tensors.add(dims=dims)
    return run


def tile_run(time: int, default: bool = False, error: bool = False, **bounds) -> ConfigProfile:
    run = ConfigProfile(is_default=default, error=error)
    run.profile.compute_time_ns = time
    run.op_config.tile_size_config.SetInParent()
    for name, values in bounds.items():
        getattr(run.op_config.tile_size_config, name).extend(values)
    return run


def tuning(hlo: HloModuleProto, *runs: ConfigProfile, nodes=()) -> ModuleTuningData:
    return ModuleTuningData(module=hlo, runs=runs, config_index_to_node=nodes)


def layout_graph(name: str = "graph", configs: int = 6) -> LayoutGraph:
    rng = np.random.default_rng(0)
    features = rng.integers(0, 9, (5, 140)).astype(np.float32)
    features[:, ELEMENT_TYPE] = np.eye(19, dtype=np.float32)[11]  # float32
    return LayoutGraph(
        name=name,
        node_feat=features,
        node_opcode=np.array([63, 75, 26, 2, 0], np.uint8),
        edge_index=np.array([[1, 0], [2, 1], [3, 2], [3, 0]], np.int64),
        node_config_ids=np.array([1, 2], np.int64),
        node_splits=np.array([0, 3, 5], np.int64),
        node_config_feat=rng.integers(-1, 6, (configs, 2, 18)).astype(np.int8),
        config_runtime=np.arange(1, configs + 1, dtype=np.int64) * 1000,
    )


def tile_kernel(name: str = "kernel") -> TileKernel:
    rng = np.random.default_rng(1)
    graph = layout_graph()
    return TileKernel(
        name=name,
        node_feat=graph.node_feat,
        node_opcode=graph.node_opcode,
        edge_index=graph.edge_index,
        config_feat=rng.integers(0, 300, (4, 24)).astype(np.float32),
        config_runtime=np.array([5, 6, 7, 8], np.int64),
        config_runtime_normalizers=np.full(4, 5, np.int64),
    )


def npy(array: np.ndarray, allow_pickle: bool = False) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, np.asanyarray(array), allow_pickle=allow_pickle)
    return file.getvalue()


def header(shape, descr="<f4", version=(1, 0), data=b"") -> bytes:
    """The front of an npy file, whatever it claims."""
    file = io.BytesIO()
    text = {"descr": descr, "fortran_order": False, "shape": shape}
    write = np.lib.format.write_array_header_1_0
    if version == (2, 0):
        write = np.lib.format.write_array_header_2_0
    write(file, text)
    return file.getvalue() + data


def members(path: Path) -> dict[str, bytes]:
    """The npy files of an archive, by key."""
    with zipfile.ZipFile(path) as archive:
        return {name.removesuffix(".npy"): archive.read(name) for name in archive.namelist()}


def rezip(path: Path, parts: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    """Write an archive of npy files whose checksums are right, whatever is in them."""
    with zipfile.ZipFile(path, "w", method) as archive:
        for key, data in parts.items():
            archive.writestr(f"{key}.npy", data)
    return path
