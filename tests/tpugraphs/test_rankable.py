"""How many folds there can be, told by the raw files alone."""

from __future__ import annotations

import io
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lib.cache.compress import compress
from lib.cache.kernel import CachedKernel
from lib.ranking.folds import UNIT_OF
from lib.tpugraphs.npz import read_tile, write_layout, write_tile
from lib.tpugraphs.rankable import EVEN, SAME, UNLABELLED, UNREADABLE, count_parts, nothing_to_rank
from tests.kernels import tile_kernel
from tests.synthetic import layout_graph

GRAPH = layout_graph("g", 1)
FOLDER = Path("layout", "xla", "default")
CHANGED = {
    "": {},
    UNLABELLED: {"config_runtime": np.zeros(20, np.int64)},
    EVEN: {"config_runtime": np.full(20, 7)},
    SAME: {"node_config_feat": np.repeat(GRAPH.node_config_feat[:1], 20, axis=0)},
}


@pytest.mark.parametrize("why", CHANGED)
def test_a_raw_file_and_the_cache_say_the_same(tmp_path, why):
    graph = replace(GRAPH, **CHANGED[why])
    write_layout(tmp_path / "g.npz", graph)
    assert nothing_to_rank(tmp_path / "g.npz") == why
    assert compress(graph, "train", 1).nothing_to_rank == why


@pytest.mark.parametrize(("why", "runtime"), [("", 8), (EVEN, 7), (UNLABELLED, 0)])
def test_a_kernel(tmp_path, why, runtime):
    kernel = tile_kernel("k", 0, configurations=3)
    runtimes = np.array([7, 7, 8]) if why == "" else np.full(3, runtime)
    normalizers = np.zeros(3, np.int64)
    kernel = replace(kernel, config_runtime=runtimes, config_runtime_normalizers=normalizers)
    write_tile(tmp_path / "k.npz", kernel)
    assert nothing_to_rank(tmp_path / "k.npz") == why
    cached = CachedKernel.of(read_tile(tmp_path / "k.npz"), "train")
    assert cached.nothing_to_rank == why


@pytest.mark.parametrize("order", "CF")
@pytest.mark.parametrize("dtype", ["<f4", "<i8", ">f8"])
def test_other_forms_of_arrays(tmp_path, order, dtype):
    """What numpy writes otherwise than this project; in Fortran order no row is in one piece."""
    same = np.asarray(CHANGED[SAME]["node_config_feat"], dtype, order=order)
    arrays = {"config_runtime": GRAPH.config_runtime, "node_config_feat": same}
    np.savez(tmp_path / "g.npz", **arrays)
    assert nothing_to_rank(tmp_path / "g.npz") == ("" if order == "F" else SAME)


def hostile() -> dict[str, bytes]:
    """Files that are none, by what is wrong with them."""
    header = b"\x93NUMPY\x01\x00"
    texts = {
        "no dictionary": b"[]",
        "nested": b"(" * 9000,
        "no shape": b"{'shape': None, 'descr': '<i8', 'fortran_order': False}",
    }
    members = {why: header + len(text).to_bytes(2, "little") + text for why, text in texts.items()}
    members |= {"empty": b"", "long": b"\x93NUMPY\x02\x00" + b"\xff" * 4}
    found = {"no zip": b"PK"}
    for why, member in members.items():
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("config_runtime.npy", member)
        found[why] = file.getvalue()
    return found


@pytest.mark.parametrize("why", hostile())
def test_what_cannot_be_read_is_not_counted(tmp_path, why):
    (tmp_path / "g.npz").write_bytes(hostile()[why])
    assert nothing_to_rank(tmp_path / "g.npz") == UNREADABLE


def write(root: Path, split: str, name: str, why: str = "") -> None:
    write_layout(root / "npz" / FOLDER / split / f"{name}.npz", replace(GRAPH, **CHANGED[why]))


def test_graphs_and_families_are_counted_until_there_are_enough(tmp_path):
    for index in range(3):
        write(tmp_path, "train", f"a.{index}")
    write(tmp_path, "valid", "b.0")
    write(tmp_path, "valid", "c.0", UNLABELLED)
    write(tmp_path, "test", "d.0")
    assert count_parts(tmp_path, FOLDER, UNIT_OF["graph"], 20) == 4
    assert count_parts(tmp_path, FOLDER, UNIT_OF["family"], 20) == 2
    assert count_parts(tmp_path, FOLDER, UNIT_OF["graph"], 3) == 3
    assert count_parts(tmp_path, Path("layout", "nlp", "default"), UNIT_OF["graph"], 20) == 20
