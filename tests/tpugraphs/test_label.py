"""Runtimes from a table become labels, of all graphs in it or of none."""

from __future__ import annotations

import numpy as np
import pytest

from lib.files.errors import UserError
from lib.tpugraphs.label import HEADER, label
from lib.tpugraphs.npz import read_layout, read_tile, write_layout, write_tile
from tests.tpugraphs.builders import layout_graph, tile_kernel

LAYOUT = [f"a.v1,{index},{3e-3 - index / 1e6}" for index in range(6)]
TILE = [f"k,{index},{index + 1}e-6" for index in range(4)]


@pytest.fixture
def folder(tmp_path):
    graph, kernel = layout_graph("a.v1"), tile_kernel("k")
    graph.config_runtime[:] = 0
    write_layout(tmp_path / "npz" / "a.v1.npz", graph)
    write_tile(tmp_path / "npz" / "k.npz", kernel)
    write_layout(tmp_path / "npz" / "other.npz", layout_graph("other"))
    return tmp_path / "npz"


def write(folder, *rows, head: str = HEADER, end: str = "\n"):
    path = folder.parent / "t.csv"
    path.write_bytes(end.join([head, *rows, ""]).encode())
    return path


@pytest.mark.parametrize(("mark", "end"), [("", "\n"), ("\ufeff", "\r\n")])
def test_labels_of_layouts_and_tiles_whatever_the_order_of_rows(folder, mark, end):
    before = (folder / "other.npz").read_bytes()
    rows = [*reversed(LAYOUT), TILE[2], TILE[0], '"k",3,"4e-06"', TILE[1]]
    told = label(write(folder, *rows, head=mark + HEADER, end=end), folder)
    assert told == f"label: 2 graphs, 10 configurations in {folder}; not in the table: other"
    graph, kernel = read_layout(folder / "a.v1.npz"), read_tile(folder / "k.npz")
    assert graph.config_runtime.tolist() == [3_000_000 - 1000 * index for index in range(6)]
    assert np.array_equal(graph.node_config_feat, layout_graph().node_config_feat)
    assert kernel.config_runtime.tolist() == [1000, 2000, 3000, 4000]
    assert kernel.config_runtime_normalizers.tolist() == [0] * 4  # of another machine
    assert (folder / "other.npz").read_bytes() == before


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ([*LAYOUT[:5]], "a.v1: found configurations 0 to 4, expected the 6 of "),
        ([*LAYOUT, LAYOUT[3]], "line 8: found 'a.v1,3,0.002997', expected each configuration"),
        ([*LAYOUT[:3], *LAYOUT[4:]], "line 5: found 'a.v1,4,"),
        ([*LAYOUT[:5], "a.v1,5,0"], "line 7: found 'a.v1,5,0', expected seconds, from 1e-09"),
        ([*LAYOUT[:5], "a.v1,5,nan"], "expected seconds"),
        ([*LAYOUT, "../a.v1,0,1"], "graph: found '../a.v1', expected a file "),
        ([*LAYOUT, ",0,1"], "expected the name of a graph"),
        ([*LAYOUT, "a,0,1,2"], "table: found "),
    ],
)
def test_a_bad_row_changes_nothing(folder, rows, told):
    write_layout(folder / "b.npz", layout_graph("b"))
    before = {path: path.read_bytes() for path in folder.iterdir()}
    first = [f"b,{index},1" for index in range(6)]  # which are good
    with pytest.raises(UserError) as error:
        label(write(folder, *rows, *first), folder)
    assert told in str(error.value)
    assert "\n" not in str(error.value)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_another_table_is_told(folder):
    with pytest.raises(UserError, match="line 1: found 'graph,config,seconds', expected graph,con"):
        label(write(folder, *LAYOUT, head="graph,config,seconds"), folder)


@pytest.mark.parametrize("name", ["a.v1", "k"])
def test_files_need_no_runtimes_before(folder, name):
    path = folder / f"{name}.npz"
    with np.load(path) as file:
        arrays = {key: file[key] for key in file if not key.startswith("config_runtime")}
    np.savez(path, **arrays)
    label(write(folder, *(LAYOUT if name == "a.v1" else TILE)), folder)
    read = read_layout if name == "a.v1" else read_tile
    assert read(path).config_runtime.min() >= 1000
