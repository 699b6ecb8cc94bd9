"""Stage 1 on small files that unpack to large ones."""

from __future__ import annotations

import zipfile

import numpy as np
import pytest

from lib.tpugraphs.dataset import TPUGRAPHS
from lib.tpugraphs.npz import write_layout
from tests.interpreter import python
from tests.stages import command, ran
from tests.synthetic import layout_graph, write_dataset
from tests.tpugraphs.builders import header, members, npy

ALLOWED = 7 * 10**8  # bytes


@pytest.mark.parametrize(
    ("key", "shape", "code"),
    [
        ("edge_index", (2**25, 2), 2),
        ("node_config_feat", (2**20, 3, 18), 0),
    ],
)
def test_bombs_stay_below_700_megabytes(tmp_path, key, shape, code):
    """Half a gigabyte of zeros in half a megabyte; a good graph if nothing else is wrong."""
    bomb = tmp_path / "data" / "npz" / "layout/xla/default" / "train" / "bomb.npz"
    write_layout(bomb, layout_graph("bomb", 2, nodes=12, configurable=3, configurations=8))
    write_dataset(tmp_path / "data", TPUGRAPHS)
    parts = {name: data for name, data in members(bomb).items() if name != key}
    if code == 0:
        parts["config_runtime"] = npy(np.zeros(shape[0], np.int64))
    dtype = "<i8" if key == "edge_index" else "<f4"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in parts.items():
            archive.writestr(f"{name}.npy", data)
        with archive.open(f"{key}.npy", "w", force_zip64=True) as file:
            file.write(header(shape, dtype))
            left = int(np.prod(shape)) * np.dtype(dtype).itemsize
            for _ in range(left // 2**20):
                file.write(bytes(2**20))
            file.write(bytes(left % 2**20))
    flags = ["--data", tmp_path / "data", "--outputs", tmp_path / "outputs", "--jobs", 1]
    line = [python(), "-m", "tests.peak", *command("01_preprocess.py", *flags)[1:]]
    done = ran(line)
    assert done.returncode == code, done.stderr
    assert done.stderr.count("\n") == (code == 2)
    assert int(done.stdout.split()[-1]) < ALLOWED
