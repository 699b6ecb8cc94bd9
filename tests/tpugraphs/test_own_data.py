"""The page on data of one's own: its example is a graph, and its tables are the format's."""

from __future__ import annotations

import re
from pathlib import Path

from lib.tpugraphs.checks import LAYOUT_SPEC
from lib.tpugraphs.encoding import FEATURE_NAMES
from lib.tpugraphs.npz import read_layout
from tests.stages import REPOSITORY

PAGE = (REPOSITORY / "docs" / "how-to" / "own-data.md").read_text()


def test_the_lines_of_the_page_write_a_graph(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write, label = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(write, {})
    path = "mine/npz/layout/xla/random/train/product.npz"
    graph = read_layout(path)
    assert graph.config_runtime.tolist() == [1_250_000, 1_312_000]
    assert graph.node_config_feat[:, 0, :3].tolist() == [[-1, -1, -1], [0, 1, -1]]
    Path("runtimes.csv").write_text(
        "graph,configuration,seconds\nproduct,1,0.003\nproduct,0,0.004\n"
    )
    exec(label, {})
    assert read_layout(path).config_runtime.tolist() == [4_000_000, 3_000_000]


def test_the_tables_are_the_formats():
    assert all(f"| `{key}` |" in PAGE for key in (*LAYOUT_SPEC, "node_splits"))
    starts = ["is_root", "shape_element_type", "shape_dimensions", "parameter_number"]
    starts += ["window_size", "convolution_dim_numbers", "slice_dims", "is_stable"]
    places = [
        next(k for k, name in enumerate(FEATURE_NAMES) if name.startswith(start))
        for start in starts
    ]
    rows = re.findall(r"^\| (\d+)[-,]", PAGE, re.MULTILINE)
    assert [int(row) for row in rows] == places
