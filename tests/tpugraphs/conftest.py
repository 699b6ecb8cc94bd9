"""Golden files of the official code, which lie beside the repository, not in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lib.tpugraphs.npz import write_layout, write_tile
from lib.tpugraphs.schema_pb2 import ModuleTuningData
from tests.tpugraphs.builders import layout_graph, tile_kernel

SHARED = Path(__file__).parents[2].parent / "shared" / "tpugraphs"
TILES = range(15)


@pytest.fixture(scope="session")
def shared() -> Path:
    if not SHARED.is_dir():
        pytest.skip(f"the golden files are not here: {SHARED}")
    return SHARED


@pytest.fixture(scope="session")
def layout_golden(shared) -> dict[str, np.ndarray]:
    return load(shared / "golden" / "layout_golden.npz")


@pytest.fixture(scope="session")
def layout_tuning(shared) -> ModuleTuningData:
    return ModuleTuningData.FromString((shared / "module_tuning_data_layout.pb").read_bytes())


@pytest.fixture(params=TILES)
def tile_golden(request, shared) -> tuple[int, dict[str, np.ndarray]]:
    (path,) = (shared / "golden").glob(f"tile_golden_{request.param}_*.npz")
    return request.param, load(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a small good file of each kind."""
    path = tmp_path_factory.mktemp("hostile")
    write_layout(path / "layout.npz", layout_graph())
    write_tile(path / "tile.npz", tile_kernel())
    return path


def load(path: Path) -> dict[str, np.ndarray]:
    with np.load(path, allow_pickle=False) as archive:
        return dict(archive)


def same_bits(actual: np.ndarray, expected: np.ndarray) -> bool:
    return (actual.dtype, actual.shape) == (expected.dtype, expected.shape) and (
        actual.tobytes() == expected.tobytes()
    )
