"""Names and values are text, whatever they hold: nothing of them runs, loads or breaks the page.

Two walls, each tested without the other: everything is escaped, and the page's policy lets only
its own style and script through.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lib.files.artifacts import write_json
from lib.ranking.folds import family
from tests.report.browsing import look
from tests.report.builders import graph_row, write_outputs, write_report

FAR = "http://192.0.2.1"  # an address of nobody's


def run(name: str) -> str:
    """A script that leaves two traces."""
    return f"window.ran=1;alert(`{name}`)"


# Each does something as soon as a browser takes it for markup, or is pressed.
PAYLOADS = {
    "svg": f'<svg onload="{run("svg")}"></svg>',
    "image": f'<img src="x" onerror="{run("image")}">',
    "script": f"<script>{run('script')}</script>",
    "link": f'<a href="javascript:{run("link")}">x</a>',
    "frame": f'<iframe srcdoc="<script>parent.{run("frame")}</script>"></iframe>',
    "event": f'<details open ontoggle="{run("event")}">x</details>',
    "animation": f'<svg><animate onbegin="{run("animation")}" attributeName="x" dur="1s"/></svg>',
    "object": f'<object data="{FAR}/object"></object>',
    "style": f'<b style="background: url({FAR}/style)">x</b>',
    "sheet": f'<link rel="stylesheet" href="{FAR}/sheet">',
    "rules": f"<style>body {{ background: url({FAR}/rules) }}</style>",
    "base": f'<base href="{FAR}/base/"><img src="a">',
}
# Each leaves the place that it was put in, and then does the same.
ENDS = ('"', "'", '">', "'>", "</script>", "</style>", "</title>", "</svg>", "</td>", "]]>", "-->")
WAYS_OUT = (
    *(end + PAYLOADS["image"] for end in ENDS),
    f'" onmouseover="{run("hover")}" x="',
    f"' onfocus='{run('focus')}' tabindex='0",
    f"{{{{ 7 * 7 }}}}{{% if 1 %}}{PAYLOADS['script']}",
    f"\x00\x1b&lt;svg onload={run('entity')}&gt;",
)
HOSTILE = "".join((*PAYLOADS.values(), *WAYS_OUT))
NAMES = (HOSTILE, *PAYLOADS.values(), *WAYS_OUT)
PLAIN = "plain"
TOUCH = """() => { for (const element of document.querySelectorAll('*')) {
  for (const name of ['mouseover', 'focus', 'click', 'toggle', 'load', 'error'])
    element.dispatchEvent(new Event(name));
} }"""


def write_everywhere(folder: Path, text: str, names: Sequence[str]) -> Path:
    """A report with ``text`` wherever outputs tell one, and with graphs of these names."""
    values = {name: graph_row(0.9 - 0.01 * place) for place, name in enumerate(names)}
    about = {"collection": text, "model": text, "weights": text, text: text}
    write_outputs(folder, values, values, **about, versions={text: text, "torch": text})
    machine = {"processor": text, "cores": 2, "system": text, "python": text}
    for stage in ("train_0", "infer_0", "ensemble"):
        spent = {"stage": stage.split("_")[0], "seconds": 2.0, "peak_memory_bytes": 1e9}
        named = f"\udcff{text}"  # as Python reads bytes of the environment that are not UTF-8
        used = {"settings": {text: text}, "machine": machine, "experiment": named}
        write_json(folder / "stages" / f"{stage}.json", {**spent, **used})
    return write_report(folder)


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("hostile") / HOSTILE[:40].replace("/", "_")
    return write_everywhere(folder, HOSTILE, NAMES)


class Skeleton(HTMLParser):
    """A page's elements and the names of their attributes, in its order, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.found: list[tuple[str, ...]] = []
        self.text = ""
        self.feed(path.read_text("utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, *(name for name, _ in attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_hostile_names_leave_the_page_as_plain_ones_do(page, tmp_path):
    families = [family(name) for name in NAMES]  # of which the page has rows
    plain = [f"{PLAIN} {families.index(own):02}.{k:02}" for k, own in enumerate(families)]
    other = Skeleton(write_everywhere(tmp_path / PLAIN, PLAIN, plain))
    found = Skeleton(page)
    assert found.found == other.found
    assert [name for name in NAMES if name not in found.text] == []


def test_nothing_runs_and_the_policy_is_not_even_needed(browser, page):
    shown, complaints = look(browser, page)
    shown.click("summary")
    shown.evaluate(TOUCH)
    shown.wait_for_timeout(100)
    assert complaints == []
    assert shown.evaluate("window.ran") is None
    links = shown.locator("a, area, form, base, iframe, object, embed, img, link")
    found = links.evaluate_all("all => all.map(e => e.getAttribute('href') || e.src)")
    assert found
    assert all(one.startswith(("data:,", "data:image/svg+xml;base64,", "#")) for one in found)
    shown.context.close()


POLICY = re.compile(r'<meta http-equiv="Content-Security-Policy" content="[^"]+">\n')


def test_what_is_not_escaped_does_not_run_either(browser, tmp_path):
    """The page's policy alone, against markup put into the page; without it, all of that runs."""
    text = write_report(write_outputs(tmp_path / "c", {PLAIN: graph_row(0.5)})).read_text("utf-8")
    assert text.count("</header>") == 1
    hostile = text.replace("</header>", "".join(PAYLOADS.values()) + "</header>")
    did = {}
    for guarded in (True, False):
        path = tmp_path / f"{guarded}.html"
        path.write_text(hostile if guarded else POLICY.sub("", hostile), "utf-8")
        shown, complaints = look(browser, path)
        shown.click("a[href^=javascript]")
        shown.wait_for_timeout(200)
        told = "\n".join(complaints)
        did[guarded] = {
            name for name in PAYLOADS if re.search(rf"(dialog: |loads {FAR}/){name}\b", told)
        }
        assert shown.evaluate("window.ran") == (None if guarded else 1)
        assert ("Content Security Policy" in told) == guarded
        shown.context.close()
    assert did == {True: set(), False: set(PAYLOADS)}
