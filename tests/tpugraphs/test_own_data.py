"""The page on data of one's own: its example is a graph, and its tables are the format's."""

from __future__ import annotations

import re

from lib.tpugraphs.checks import LAYOUT_SPEC
from lib.tpugraphs.encoding import FEATURE_NAMES
from lib.tpugraphs.npz import read_layout
from tests.stages import REPOSITORY

PAGE = (REPOSITORY / "docs" / "how-to" / "own-data.md").read_text()


def test_the_lines_of_the_page_write_a_graph(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (lines,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(lines, {})
    graph = read_layout("mine/npz/layout/xla/random/train/product.npz")
    assert graph.config_runtime.tolist() == [1_250_000, 1_312_000]
    assert graph.node_config_feat[:, 0, :3].tolist() == [[-1, -1, -1], [0, 1, -1]]


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
