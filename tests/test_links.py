"""Links of pages lead somewhere: to a file of the tree, and to its heading where they name one."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.stages import REPOSITORY

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
MENTIONED = re.compile(r"(?<![\w/.])(docs/[\w./-]*\w)")  # in code, and in what it prints
TEXT = {".md", ".py", ".sh", ".mk", ".toml", ""}


def tracked() -> list[Path]:
    """Files of the tree that are text, as Git lists them, with those that are not added yet."""
    line = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    paths = [REPOSITORY / name for name in done.stdout.splitlines()]
    return [path for path in paths if path.suffix in TEXT and path.is_file()]


FILES = tracked()
PAGES = [path for path in FILES if path.suffix == ".md"]


def anchors(page: str) -> set[str]:
    """What a link may name of a page: its headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.*)", BLOCK.sub("", page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", one.lower()).strip().replace(" ", "-") for one in headings}


def broken(path: Path, text: str) -> list[str]:
    """Links of a page that lead nowhere."""
    found = []
    for link in LINK.findall(BLOCK.sub("", text)):
        if re.match(r"[a-z]+:", link):
            continue
        file, _, anchor = link.partition("#")
        target = (path.parent / file).resolve() if file else path
        if not target.exists() or (anchor and anchor not in anchors(target.read_text())):
            found.append(link)
    return found


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_links_lead_somewhere(path):
    assert broken(path, path.read_text(encoding="utf-8")) == []


def test_a_link_that_leads_nowhere_is_found(tmp_path):
    (tmp_path / "b.md").write_text("# What `x` *is*: all\n\n```\n# no heading\n```\n")
    good = "[b](b.md), [x](b.md#what-x-is-all), [w](https://a.b/c), ![here](#a)\n# A\n"
    (tmp_path / "a.md").write_text(good)
    assert broken(tmp_path / "a.md", good) == []
    bad = "[c](c.md), [x](b.md#no-heading), ![here](#b)"
    assert broken(tmp_path / "a.md", bad) == ["c.md", "b.md#no-heading", "#b"]


def test_pages_that_code_and_its_messages_name_are_there():
    named = {
        (str(path.relative_to(REPOSITORY)), one)
        for path in FILES
        for one in MENTIONED.findall(path.read_text(encoding="utf-8"))
        if path.name != "test_links.py"
    }
    assert len(named) > 10
    assert [one for one in sorted(named) if not (REPOSITORY / one[1]).exists()] == []


def test_files_that_pages_name_are_there():
    """But for the model that a guide has one write, and what the history is of."""
    pages = [path for path in PAGES if path.name != "CHANGELOG.md"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in pages)
    named = set(re.findall(r"`((?:lib|tests)/[\w/.]+\.\w+)", text))
    assert len(named) > 30
    missing = {one for one in named if not (REPOSITORY / one).exists()}
    assert missing == {"lib/models/linear/network.py", "lib/models/linear/settings.py"}


def long_lines(text: str) -> list[str]:
    """Lines of prose that are too long; tables and what programs print cannot be broken."""
    lines = BLOCK.sub("", text).splitlines()
    return [line for line in lines if len(line) > 100 and not line.startswith("|")]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(REPOSITORY)))
def test_lines_of_prose_are_short(path):
    generated = path.match("data/*/README.md") or path.match("data/*/NOTES.md")
    if not generated and path.name != "CHANGELOG.md":
        assert long_lines(path.read_text(encoding="utf-8")) == []


def test_a_long_line_is_found():
    assert long_lines(f"short\n| {'a' * 99} |\n```\n{'b' * 101}\n```\n") == []
    assert long_lines(f"{'c' * 101}\n") == ["c" * 101]


def test_every_page_is_linked():
    """From a page of the tree, so that a reader who begins with the README may find it."""
    linked = {
        (path.parent / link.partition("#")[0]).resolve()
        for path in PAGES
        for link in LINK.findall(path.read_text(encoding="utf-8"))
    }
    pages = [path for path in (REPOSITORY / "docs").rglob("*") if path.is_file()]
    assert [str(path.relative_to(REPOSITORY)) for path in pages if path not in linked] == []
