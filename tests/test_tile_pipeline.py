"""tile-xla through make and the real stage scripts, on generated kernels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lib.tpugraphs.dataset import TPUGRAPHS
from tests.kernels import COLLECTION, tile_kernel, write_kernels
from tests.stages import SCRIPTS, make, stages_in
from tests.synthetic import write_dataset
from tests.tpugraphs.builders import members, rezip

COUNTS = (10, 12, 25, 40, 80, 300, 1200, 5000)
TEST_COUNTS = {"test_few": 3, "test_five": 5, "test_same": 9, "test_many": 600}
FLAGS = "--folds-total 2 --channels 16 --score-training --kernels 2"


def write_collection(root: Path) -> None:
    """Kernels of 10 to 5,000 configurations, and every oddity that a kernel may have."""
    folder = root / "npz" / "tile" / "xla"
    kernels = [tile_kernel(f"k{i}.v1", i, configurations=c) for i, c in enumerate(COUNTS)]
    kernels.append(tile_kernel("few", 20, configurations=2))
    same = tile_kernel("same", 21, configurations=9)
    kernels.append(replace(same, config_feat=np.zeros_like(same.config_feat)))
    bare = tile_kernel("no_normalizers", 22)
    kernels.append(replace(bare, config_runtime_normalizers=np.zeros(40, np.int64)))
    write_kernels(folder / "train", kernels[::2])
    write_kernels(folder / "valid", kernels[1::2])
    tests = [
        tile_kernel(n, 30 + i, configurations=c) for i, (n, c) in enumerate(TEST_COUNTS.items())
    ]
    tests[2].config_feat[:] = 0
    write_kernels(folder / "test", tests, labelled=False)
    path = folder / "test" / "test_few.npz"
    parts = members(path)
    del parts["config_runtime_normalizers"]
    rezip(path, parts)
    write_dataset(root, TPUGRAPHS)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The collection's folder, what make said, and a function that makes again."""
    root = tmp_path_factory.mktemp("tile")
    write_collection(root / "data")
    given = {"COLLECTION": COLLECTION, "DATA": root / "data", "OUTPUTS": root / "out"}
    given |= {"FOLDS": 2, "EPOCHS": 2.5, "JOBS": 1, "ARGS": FLAGS}

    def again() -> str:
        return make("all", **given)

    return root / "out" / COLLECTION, again(), again


def test_every_stage_ran_once(run):
    _, output, again = run
    assert stages_in(output) == list(SCRIPTS)
    for line in ("preprocess: ", "train: ", "infer: ", "ensemble: "):
        assert f"\n{line}{COLLECTION}" in output
    assert "validation tile_score" in output
    assert "M_tile" in output
    assert stages_in(again()) == []
