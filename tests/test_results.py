"""Tables of results are what their commands print, and the commands that pages name are there."""

from __future__ import annotations

import importlib
import re
import sys

import pytest

from tests.stages import REPOSITORY

PAGES = [REPOSITORY / "CONTRIBUTING.md", *(REPOSITORY / "docs").rglob("*.md")]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
TABLE = re.compile(r"<!-- tests\.bench\.(\w+) --print -->\n(.*?)<!-- end -->", re.DOTALL)
TABLES = dict(TABLE.findall(TEXT))
# JAX and TVM have environments of their own.
NAMED = sorted(set(re.findall(r"\.venv/bin/python -m tests\.bench\.(\w+)", TEXT)))


def missing(table: str, printed: str) -> list[str]:
    """Lines of a table on a page that its command does not print."""
    known = {line.rstrip() for line in printed.splitlines()}
    return [line for line in table.splitlines() if line.strip("`") and line not in known]


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_table_is_what_its_command_prints(name, monkeypatch, capsys):
    """A page may leave rows out, and has no other ones."""
    monkeypatch.setattr(sys, "argv", [name, "--print"])
    importlib.import_module(f"tests.bench.{name}").main()
    assert missing(TABLES[name], capsys.readouterr().out) == []


def test_a_changed_digit_is_found():
    assert missing("```\na  1\n\nb 2\n```\n", "x\na  1\nb 3  \n") == ["b 2"]
    assert missing("| a |\n", "| a |   \n") == []


@pytest.mark.parametrize("name", NAMED)
def test_a_bench_that_pages_name_starts(name):
    assert hasattr(importlib.import_module(f"tests.bench.{name}"), "main")


def test_there_are_tables():
    assert len(TABLES) >= 4
    assert len(NAMED) >= 10
