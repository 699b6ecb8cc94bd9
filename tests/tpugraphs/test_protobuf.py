"""Which modules and runs of a protobuf file count, and what becomes of them."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from lib.files.errors import DataError
from lib.preprocess.graphs import read_graphs
from lib.tpugraphs.messages import detect_kind
from lib.tpugraphs.program import read_program
from lib.tpugraphs.protobuf import read_layout_pb, read_protobuf, read_tile_pb
from lib.tpugraphs.schema_pb2 import HloProto, ModuleTuningData, TuningData
from lib.tpugraphs.tiles import read_kernels
from tests.tpugraphs.builders import chain, layout_run, tile_run, tuning
from tests.tpugraphs.conftest import same_bits

NODES = (1, 2)
RESHAPE, CONVOLUTION = [[0, 1], [2, 0, 1]], [[3, 0], [], [1, 2]]


def saved(tmp_path, message, name: str = "in.pb"):
    (tmp_path / name).write_bytes(message.SerializeToString())
    return tmp_path / name


def layout(tmp_path, *runs, nodes=NODES):
    return read_layout_pb(saved(tmp_path, tuning(chain(), *runs, nodes=nodes)))


def test_layout_golden_bit_for_bit(shared, layout_golden):
    graph = read_protobuf(shared / "module_tuning_data_layout.pb")
    assert graph.name == str(layout_golden["module_name"])
    same = ("node_opcode", "edge_index", "node_config_ids", "node_splits")
    for key in (*same, "config_runtime"):
        assert same_bits(getattr(graph, key), layout_golden[key]), key
    codes = graph.node_config_feat
    assert codes.dtype == np.int8
    assert same_bits(codes.astype(np.float32), layout_golden["node_config_feat"])
    kept = layout_golden["run_kept"]
    assert same_bits(codes.astype(np.float32), layout_golden["run_node_config_feat"][kept])
    assert same_bits(graph.config_runtime, layout_golden["run_compute_time_ns"][kept])


def test_tile_golden_bit_for_bit(shared, tile_golden):
    index, golden = tile_golden
    kernel = read_protobuf(shared / "op_tuning_data.pb")[index]
    assert kernel.name == str(golden["module_name"])
    assert same_bits(kernel.node_feat, golden["node_feat_pad_minus1"])
    keys = ("node_opcode", "config_feat", "config_runtime")
    for key in (*keys, "config_runtime_normalizers"):
        assert same_bits(getattr(kernel, key), golden[key]), key
    assert same_bits(kernel.edge_index, golden["edge_index_insertion_order"])
    kept = golden["run_kept"]
    assert same_bits(kernel.config_feat, golden["run_config_feat"][kept])
    assert same_bits(kernel.config_runtime, golden["run_compute_time_ns"][kept])


BUFFERS = b"\x1a\x09\x12\x07\x0a\x05f.1.2"  # a buffer_assignment, field 3, with a name in it


@pytest.mark.parametrize("more", [b"", BUFFERS])
def test_the_module_in_what_xla_dumps(tmp_path, more):
    """An HloProto, before and after optimization: its module, and not a measured one of it."""
    path = saved(tmp_path, HloProto(hlo_module=chain("f")))
    path.write_bytes(path.read_bytes() + more)
    assert detect_kind(path) == "hlo"
    bare = read_protobuf(saved(tmp_path, chain("f"), "bare.pb"))
    found, program = read_protobuf(path), read_program(path)
    assert found.name == "f"
    assert found.node_config_ids.tolist() == [1, 2]
    assert same_bits(found.node_feat, bare.node_feat)
    assert program.names == ["parameter.9", "reshape.4", "convolution.6", "add.2"]
    with pytest.raises(DataError, match=r"in\.pb: message: found an HLO module without"):
        next(read_graphs(path, "train", {}))
    with pytest.raises(DataError, match=r"in\.pb: message: found an HLO module without tile"):
        read_kernels(path)


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (b"HloModule jit_f, is_scheduled=true\n\nENTRY ...", "HLO text, .*xla_dump_hlo_as_proto"),
        (gzip.compress(chain().SerializeToString()), "a gzip archive, .*gunzip"),
    ],
)
def test_what_else_a_compiler_dumps_is_told(tmp_path, data, told):
    (tmp_path / "in.pb").write_bytes(data)
    for read in (read_program, read_kernels, read_protobuf):
        with pytest.raises(DataError, match=told):
            read(tmp_path / "in.pb")


def test_layout_features_and_kept_runs(tmp_path):
    no_profile = layout_run(0, [RESHAPE, CONVOLUTION])
    no_profile.ClearField("profile")
    no_config = layout_run(9, [RESHAPE, CONVOLUTION])
    no_config.ClearField("module_config")
    graph = layout(
        tmp_path,
        layout_run(30, [RESHAPE, CONVOLUTION]),
        layout_run(0, [RESHAPE, CONVOLUTION], error=True),
        no_profile,
        no_config,
        layout_run(20, [[], [[5, 4, 3, 2, 1, 0, 9]]], default=True),
    )
    assert graph.config_runtime.tolist() == [30, 20]
    assert graph.node_config_feat.shape == (2, 2, 18)
    first = graph.node_config_feat[0].reshape(2, 3, 6).tolist()
    empty = [-1] * 6
    assert first[0] == [[0, 1, -1, -1, -1, -1], [2, 0, 1, -1, -1, -1], empty]
    assert first[1] == [[3, 0, -1, -1, -1, -1], empty, [1, 2, -1, -1, -1, -1]]
    second = graph.node_config_feat[1].reshape(2, 3, 6).tolist()
    assert second == [[empty] * 3, [[5, 4, 3, 2, 1, 0], empty, empty]]


def test_layout_without_a_default_among_kept_runs_has_no_runs(tmp_path):
    runs = [layout_run(30, [[], []]), layout_run(0, [[], []], default=True, error=True)]
    graph = layout(tmp_path, *runs)
    assert graph.node_config_feat.shape == (0, 2, 18)
    assert graph.config_runtime.shape == (0,)
    assert not graph.config_runtime.any()
    assert graph.node_config_ids.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("runs", "nodes", "message"),
    [
        ([layout_run(0, [[], []], default=True)], NODES, r"runs\[0\].*compute_time_ns.*positive"),
        ([layout_run(5, [[]], default=True)], NODES, r"runs\[0\].*1 nodes.*expected 2"),
        ([layout_run(5, [[[0]] * 4, []], default=True)], NODES, "4 tensors.*at most 3"),
        ([layout_run(5, [[[6]], []], default=True)], NODES, r"6.*-1\.\.5"),
        ([layout_run(5, [[], []], default=True)], (1, 4), r"node_config_ids.*4.*0\.\.3"),
        ([layout_run(5, [[], []], default=True)], (1, 2**64 - 1), "node_config_ids"),
        ([layout_run(5, [[], []], default=True)], (2, 2), "2 twice.*distinct"),
        ([layout_run(5, [], default=True)], (), "config_index_to_node.*no nodes"),
    ],
)
def test_layout_rules_that_are_fatal(tmp_path, runs, nodes, message):
    with pytest.raises(DataError, match=r"in\.pb: .*" + message):
        layout(tmp_path, *runs, nodes=nodes)


def test_tile_features_and_kept_runs(tmp_path):
    runs = [
        tile_run(50, kernel_bounds=[2, 3], output_bounds=[1] * 7, iteration_bounds=[9]),
        tile_run(1),
        tile_run(0),
        tile_run(70, error=True),
        tile_run(40, default=True),
        tile_run(2, default=True),
    ]
    (kernel,) = read_tile_pb(saved(tmp_path, TuningData(modules=[tuning(chain(), *runs)])))
    assert kernel.config_runtime.tolist() == [50, 40, 2]
    assert kernel.config_runtime_normalizers.tolist() == [40, 40, 40]
    first = kernel.config_feat[0].tolist()
    assert first[:8] == [2, 3, 0, 0, 0, 0, 5, 6]
    assert first[8:16] == [1, 1, 1, 1, 1, 1, 7, 1]
    assert not any(first[16:])
    assert not kernel.config_feat[1:].any()


def test_tile_modules_that_are_skipped(tmp_path):
    bare = tile_run(30, default=True)
    bare.ClearField("op_config")
    good = (tile_run(20, default=True), tile_run(30))
    without_module = ModuleTuningData(runs=good)
    failed_without_tiles = layout_run(0, [], error=True)
    modules = [
        tuning(chain("few"), tile_run(20, default=True)),
        tuning(chain("bare"), *good, bare),
        tuning(chain("failed"), *good, failed_without_tiles),
        without_module,
        tuning(chain("good"), *good),
    ]
    path = saved(tmp_path, TuningData(modules=modules))
    assert [kernel.name for kernel in read_protobuf(path)] == ["good"]


def test_tile_normalizer_is_looked_up_by_name(tmp_path):
    modules = [
        tuning(chain("same"), tile_run(20, default=True), tile_run(30)),
        tuning(chain("same"), tile_run(7, default=True), tile_run(9)),
        tuning(chain("other"), tile_run(5, default=True), tile_run(9)),
    ]
    kernels = read_tile_pb(saved(tmp_path, TuningData(modules=modules)))
    assert [k.config_runtime_normalizers.tolist() for k in kernels] == [[7, 7], [7, 7], [5, 5]]


@pytest.mark.parametrize("default", [{"error": True}, {"time": 1}])
def test_tile_kernel_without_a_default_is_fatal(tmp_path, default):
    run = tile_run(**{"time": 5, "default": True, **default})
    message = TuningData(modules=[tuning(chain("k"), run, tile_run(5), tile_run(6))])
    with pytest.raises(DataError, match=r"in\.pb: runs of module 'k'.*no default"):
        read_tile_pb(saved(tmp_path, message))


def test_bytes_that_are_no_message(tmp_path, shared):
    path = tmp_path / "in.pb"
    whole = (shared / "op_tuning_data.pb").read_bytes()
    bad = {"empty": b"", "text": b"hello, world", "zeros": bytes(100), "cut": whole[:5000]}
    for data in bad.values():
        path.write_bytes(data)
        for kind in ("auto", "layout", "tile", "hlo"):
            with pytest.raises(DataError, match=r"in\.pb"):
                read_protobuf(path, kind)
    with pytest.raises(DataError, match="No such file"):
        read_protobuf(tmp_path / "absent.pb")
