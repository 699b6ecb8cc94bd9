"""The pages' picture: a whole SVG document, drawn from a run's own numbers."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from lib.files.errors import UserError
from lib.report.pictures import OWN_STYLE, STYLE, write_picture
from tests.report.builders import graph_row, write_outputs

SVG = "{http://www.w3.org/2000/svg}"
VALIDATION = {f"graph<{k}>": graph_row(0.1 * k) for k in range(1, 5)}
DOCS = Path(__file__).parents[2] / "docs" / "results"


def test_the_picture_stands_alone_and_shows_every_graph(tmp_path):
    folder = write_outputs(tmp_path / "layout-xla-random", VALIDATION, folds=3)
    path = write_picture(folder, tmp_path / "docs")
    root = ElementTree.parse(path).getroot()
    assert root.tag == f"{SVG}svg"
    style = root.find(f"{SVG}style").text
    assert "prefers-color-scheme: dark" in style
    assert ":root" not in style
    assert "http" not in path.read_text().replace(SVG[1:-1], "")  # nothing to fetch
    shown = [text.text for text in root.iter(f"{SVG}text")]
    assert set(VALIDATION) < set(shown)
    assert "0.400" in shown


def test_the_picture_is_the_same_bytes_twice(tmp_path):
    folder = write_outputs(tmp_path / "layout-xla-random", VALIDATION)
    one, other = (write_picture(folder, tmp_path / name) for name in "ab")
    assert one.read_bytes() == other.read_bytes()


def test_outputs_without_results_are_refused_in_one_line(tmp_path):
    folder = write_outputs(tmp_path / "layout-xla-random", {}, folds=1)
    with pytest.raises(UserError, match=r"no results in metrics\.json"):
        write_picture(folder, tmp_path / "docs")
    assert not (tmp_path / "docs").exists()


def test_the_committed_picture_is_drawn_by_this_code():
    """Its style is today's: `python -m lib.report.pictures` was run after the last change."""
    style = ElementTree.parse(DOCS / "graphs.svg").getroot().find(f"{SVG}style").text
    assert style == STYLE + OWN_STYLE
