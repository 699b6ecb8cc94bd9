"""The report in a real browser: nothing missing, nothing too wide, nothing from outside."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest

from lib.runs.provenance import commit
from tests.report.browsing import DESK, PHONE, look
from tests.report.builders import graph_row, write_outputs, write_report

SECTIONS = {  # of a real report, of one without a cache, and of an empty folder
    "real": ("result", "learning", "graphs", "time", "origin"),
    "full": ("result", "learning", "graphs", "origin"),
    "empty": ("result", "origin"),
}
# Images in view that the browser cannot draw; 0 of them is what we want.
EMPTY = """() => [...document.querySelectorAll('img.figure')].filter(
  image => !image.complete || image.naturalWidth < 30).map(image => image.alt)"""
TOO_WIDE = """() => document.documentElement.scrollWidth - document.documentElement.clientWidth"""


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> Path:
    """A report with everything in it: 70 graphs of long names."""
    folder = tmp_path_factory.mktemp("full") / "layout-xla-default"
    names = [f"some_rather_long_family.w64_d{i}_g4_b2_r48.forward.v2" for i in range(70)]
    validation = {name: graph_row(0.9 - 0.02 * i) for i, name in enumerate(names)}
    test = {f"test_{i}": graph_row(0.5 + 0.1 * i, ceiling=0.9) for i in range(3)}
    write_outputs(folder, validation, test, folds=9)
    return write_report(folder)


def test_nothing_comes_from_outside_and_an_empty_report_says_what_to_do(finished, tmp_path):
    (tmp_path / "layout-xla-default").mkdir()
    empty = write_report(tmp_path / "layout-xla-default").read_text()
    assert "Nothing was measured" in empty
    assert "make all COLLECTION=layout-xla-default" in empty
    for text in (empty, (finished.folder / "report.html").read_text()):
        found = re.findall(r"""(?:src|href|srcset)=["']?([^"' >]+)""", text)
        assert found and all(one.startswith(("#", "data:")) for one in found)
        assert not re.search(r"url\((?!#)|@import", text)


@pytest.mark.parametrize("which", SECTIONS)
def test_sections_and_links_are_of_what_there_is(finished, full, tmp_path, which):
    folder = {"real": finished.folder, "full": full.parent}.get(which, tmp_path)
    text = (write_report(folder) if which == "empty" else folder / "report.html").read_text()
    assert tuple(re.findall(r'<section id="(\w+)"', text)) == SECTIONS[which]
    assert tuple(re.findall(r'<a href="#(\w+)"', text)) == SECTIONS[which]


@pytest.mark.parametrize(
    ("which", "size", "scheme"),
    [("real", PHONE, "dark"), ("real", DESK, "light"), ("full", PHONE, "light")],
)
def test_in_a_browser(browser, finished, full, which, size, scheme):
    path = finished.folder / "report.html" if which == "real" else full
    page, complaints = look(browser, path, size, scheme)
    for name in SECTIONS[which]:
        assert page.locator(f"section#{name}").is_visible(), name
    assert page.evaluate(EMPTY) == []
    assert page.evaluate(TOO_WIDE) <= 0
    assert page.locator("img.figure:visible").count() >= 3  # curves, sections of graphs
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = int(re.findall(r"\d+", background)[0])
    assert (brightness < 60) == (scheme == "dark")
    assert complaints == []
    page.context.close()


def test_the_table_sorts(browser, full):
    page, complaints = look(browser, full, DESK, "light")
    page.click("summary")
    head = page.locator("table.sortable thead th").nth(2)
    for wanted in (sorted, lambda values: sorted(values, reverse=True)):
        if wanted is sorted:
            head.click()  # from the highest, then from the lowest
        head.click()
        cells = page.locator("table.sortable tbody td:nth-child(3)").all_inner_texts()
        values = [float(cell.replace("−", "-")) for cell in cells]
        assert values == wanted(values)
    assert complaints == []
    page.context.close()


def test_numbers_have_errors_and_the_real_ones_are_there(finished):
    metrics = json.loads((finished.folder / "metrics.json").read_text())
    text = (finished.folder / "report.html").read_text()
    tau = f"{metrics['validation']['mean']['tau']:.3f}".replace("-", "−")
    assert re.search(rf"{tau}\s*(<span class=\"error\">)?\s*±\s0\.\d{{3}}", text)
    assert "experiment trial" in text
    assert metrics["settings"]["data"] in text
    for stage in ("preprocess", "train", "infer", "ensemble"):
        assert f'<th scope="row">{stage}</th>' in text
    assert re.search(r'<th scope="row">epochs</th><td>3</td>', text)  # of training, not stage 4
    assert re.search(r'<th scope="row">permutations</th><td>2</td>', text)


def test_folds_and_commands_are_shown(finished):
    text = html.unescape((finished.folder / "report.html").read_text())
    for fold in (0, 1):
        one = json.loads((finished.folder / f"fold_{fold}" / "metrics.json").read_text())
        taus = [f"{one[key]['tau']:.3f}".replace("-", "−") for key in ("validation", "best")]
        cells = [*taus, f"{one['best']['epoch']:g}", "yes"]
        row = f'<th scope="row">{fold}</th>' + "".join(f"<td>{cell}</td>" for cell in cells)
        assert row in text
    assert re.search(r">train</th><td>02_train\.py .*--fold 0", text)
    assert commit() in text


def test_graphs_without_an_order_are_named(tmp_path):
    folder = write_outputs(tmp_path / "c", {"a": graph_row(0.5)})
    metrics = json.loads((folder / "metrics.json").read_text())
    metrics["test"] = {"left_out": ["same<i>"]}
    (folder / "metrics.json").write_text(json.dumps(metrics))
    assert "or ran equally fast: same&lt;i&gt;." in write_report(folder).read_text()


def test_one_graph_and_one_fold(tmp_path):
    text = write_report(write_outputs(tmp_path / "c", {"a": graph_row(0.5)}, folds=1)).read_text()
    assert "nan" not in re.sub(r"<(style|script)>.*?</(style|script)>", "", text, flags=re.S)
