"""The README's pictures: whole SVG documents, drawn from a run's own numbers."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from lib.files.errors import UserError
from lib.report.pictures import OWN_STYLE, STYLE, write_pictures
from tests.report.builders import graph_row, write_outputs

SVG = "{http://www.w3.org/2000/svg}"
VALIDATION = {f"graph<{k}>": graph_row(0.1 * k) for k in range(1, 5)}
DOCS = Path(__file__).parents[2] / "docs"


def test_pictures_stand_alone_and_show_every_graph(tmp_path):
    folder = write_outputs(tmp_path / "layout-xla-random", VALIDATION, folds=3)
    curves, graphs = write_pictures(folder, tmp_path / "docs")
    for path in (curves, graphs):
        root = ElementTree.parse(path).getroot()
        assert root.tag == f"{SVG}svg"
        style = root.find(f"{SVG}style").text
        assert "prefers-color-scheme: dark" in style
        assert ":root" not in style
        assert "http" not in path.read_text().replace(SVG[1:-1], "")  # nothing to fetch
    shown = [text.text for text in ElementTree.parse(graphs).getroot().iter(f"{SVG}text")]
    assert set(VALIDATION) < set(shown)
    assert "0.400" in shown
    paths = ElementTree.parse(curves).getroot().iter(f"{SVG}path")
    folds = [path for path in paths if "fold" in path.get("class").split()]
    assert len(folds) == 2 * 3  # loss and validation of each fold


def test_pictures_are_the_same_bytes_twice(tmp_path):
    folder = write_outputs(tmp_path / "layout-xla-random", VALIDATION)
    first = [path.read_bytes() for path in write_pictures(folder, tmp_path / "a")]
    assert first == [path.read_bytes() for path in write_pictures(folder, tmp_path / "b")]


def test_outputs_without_results_are_refused_in_one_line(tmp_path):
    folder = write_outputs(tmp_path / "layout-xla-random", {}, folds=1)
    with pytest.raises(UserError, match=r"no results in metrics\.json"):
        write_pictures(folder, tmp_path / "docs")
    assert not (tmp_path / "docs").exists()


def test_the_committed_pictures_are_drawn_by_this_code():
    """Their style is today's: `python -m lib.report.pictures` was run after the last change."""
    for name in ("learning-curves.svg", "graphs.svg"):
        style = ElementTree.parse(DOCS / name).getroot().find(f"{SVG}style").text
        assert style == STYLE + OWN_STYLE
