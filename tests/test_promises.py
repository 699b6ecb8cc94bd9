"""docs/reference/promises.md names tests that are there, and CONTRIBUTING.md functions that are."""

from __future__ import annotations

import ast
import re

from tests.stages import REPOSITORY

PAGE = REPOSITORY / "docs" / "reference" / "promises.md"
CITED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")


def names_in(path: str) -> set[str]:
    """The tests of a file, and its classes of tests."""
    tree = ast.parse((REPOSITORY / path).read_text(encoding="utf-8"))
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    return {name for name in found if name.lower().startswith("test")}


def test_every_test_that_is_cited_is_there():
    cited = CITED.findall(PAGE.read_text(encoding="utf-8"))
    assert len(cited) > 30
    missing = [f"{path}::{name}" for path, name in cited if name not in names_in(path)]
    assert missing == []


def test_every_promise_has_a_test():
    rows = [row for row in PAGE.read_text(encoding="utf-8").splitlines() if row.startswith("| **")]
    assert len(rows) > 10
    assert all(CITED.search(row.split("|")[2]) for row in rows)


def test_the_functions_that_the_card_names_are_there():
    named = re.findall(r"`(lib/[\w/]+\.py):([\w.]+)`", (REPOSITORY / "CONTRIBUTING.md").read_text())
    assert len(named) >= 5
    for path, name in named:
        for part in name.split("."):
            text = (REPOSITORY / path).read_text()
            assert re.search(rf"^ *(def|class) {part}\b", text, re.M), part
