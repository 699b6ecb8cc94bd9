"""The converter, through its real command line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lib.files.errors import UserError
from lib.tpugraphs.convert import convert, safe_stems
from lib.tpugraphs.npz import read_layout, read_tile
from lib.tpugraphs.schema_pb2 import TuningData
from tests.tpugraphs.builders import chain, tile_run, tuning
from tests.tpugraphs.conftest import load, same_bits

ROOT = Path(__file__).parents[2]


def run(*arguments) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "lib.tpugraphs.convert", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_layout_sample(shared, layout_golden, tmp_path):
    done = run(shared / "module_tuning_data_layout.pb", tmp_path / "out", "--pad", "0")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("\n") == 1
    assert "main__.10904.npz: layout, 3163 nodes, 112 configurations" in done.stdout
    assert names(tmp_path / "out") == ["main__.10904.npz"]
    for key, value in load(tmp_path / "out" / "main__.10904.npz").items():
        assert same_bits(value, layout_golden[key]), key


def test_tile_sample(shared, tmp_path):
    done = run(shared / "op_tuning_data.pb", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "15 files" in done.stdout
    for path in (shared / "golden").glob("tile_golden_*.npz"):
        golden = load(path)
        kernel = read_tile(tmp_path / "out" / f"{golden['module_name']}.npz")
        assert same_bits(kernel.node_feat, golden["node_feat_pad_minus1"])
        assert same_bits(kernel.config_feat, golden["config_feat"])


def test_bare_module(tmp_path):
    source = tmp_path / "in.pb"
    source.write_bytes(chain("jit f").SerializeToString())
    done = run(source, tmp_path / "out", "--pad", "-1", "--kind", "hlo")
    assert done.returncode == 0, done.stderr
    graph = read_layout(tmp_path / "out" / "jit_f.npz")
    assert graph.node_config_feat.shape == (0, 2, 18)
    assert (graph.node_feat[:, 134:140] == -1).all()


def test_kernels_of_one_name_get_different_files(tmp_path):
    runs = tile_run(9, default=True), tile_run(7)
    source = tmp_path / "in.pb"
    message = TuningData(modules=[tuning(chain(name), *runs) for name in ("k/0", "k/0", "k_0-2")])
    source.write_bytes(message.SerializeToString())
    for _ in range(2):  # the second run replaces the files of the first
        convert(source, tmp_path / "out")
    assert names(tmp_path / "out") == ["k_0-2-2.npz", "k_0-2.npz", "k_0.npz"]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (["fusion.232", "a b/c:d"], ["fusion.232", "a_b_c_d"]),
        (["", ".hidden", "..", "-x", "é"], ["_", "_.hidden", "_..", "_-x", "_-2"]),
        (["a", "a", "a-2", "A"], ["a", "a-2", "a-2-2", "A-3"]),
        (["x" * 999], ["x" * 150]),
    ],
)
def test_safe_stems(given, expected):
    assert safe_stems(given) == expected


def test_errors_are_one_line_and_write_nothing(tmp_path):
    source = tmp_path / "in.pb"
    source.write_bytes(b"nothing\nlike it")
    for arguments in ((source,), (source, "--kind", "tile"), (tmp_path / "absent.pb",)):
        done = run(arguments[0], tmp_path / "out", *arguments[1:])
        assert done.returncode == 2
        assert done.stdout == ""
        assert done.stderr.startswith(f"error: {arguments[0]}")
        assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_failure_while_writing_leaves_no_file(tmp_path, monkeypatch):
    runs = tile_run(9, default=True), tile_run(7)
    source = tmp_path / "in.pb"
    message = TuningData(modules=[tuning(chain(name), *runs) for name in "abc"])
    source.write_bytes(message.SerializeToString())
    written = []

    def write(path, kernel):
        written.append(path)
        path.write_bytes(b"part")
        if kernel.name == "b":
            raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr("lib.tpugraphs.convert.write_tile", write)
    with pytest.raises(UserError, match="No space left"):
        convert(source, tmp_path / "out")
    assert len(written) == 2
    assert names(tmp_path / "out") == []


def test_float32_configurations_on_disk(tmp_path):
    source = tmp_path / "in.pb"
    source.write_bytes(chain("g").SerializeToString())
    convert(source, tmp_path)
    assert load(tmp_path / "g.npz")["node_config_feat"].dtype == np.float32
