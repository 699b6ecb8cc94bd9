"""Which files a program runs, against the syntax trees of all of them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from lib.runs import code
from tests.stages import REPOSITORY

EVERY = [
    str(path.relative_to(REPOSITORY))
    for path in (*REPOSITORY.glob("0*.py"), *(REPOSITORY / "lib").rglob("*.py"))
]


def parsed(path: str) -> set[str]:
    """What :func:`lib.runs.code.imports_of` should find, from the file's syntax tree."""
    names = set()
    for node in ast.walk(ast.parse((REPOSITORY / path).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    found = set()
    for parts in (name.split(".") for name in names if name.split(".")[0] == "lib"):
        for length in range(1, len(parts) + 1):
            file = Path(*parts[:length])
            for one in (file / "__init__.py", file.with_suffix(".py")):
                if (REPOSITORY / one).exists():
                    found.add(str(one))
                    break
    return found


def test_imports_are_those_of_the_syntax_tree() -> None:
    for path in EVERY:
        assert code.imports_of(code.source_of(path)) == parsed(path), path


def test_a_program_runs_what_it_imports_at_any_distance() -> None:
    found = code.code_of("02_train.py")
    wanted = {"02_train.py", "lib/training/loss.py", "lib/tpugraphs/opcodes.py"}
    assert wanted | {"lib/native/local.cpp"} <= found.keys()
    assert "lib/report/page.py" not in found
    assert "lib/experiments/fold.py" not in found  # which is looked up by name
    assert "lib/report/page.css" in code.code_of("04_ensemble.py")


def test_what_is_named_counts_with_the_packages_that_hold_it() -> None:
    package = "lib/training/__init__.py"
    found = code.code_of("lib.training.loss:LOSSES").keys()
    assert {package, "lib/training/loss.py"} <= found
    less = code.code_of("lib.training.loss:LOSSES", aside=("lib/training/__",)).keys()
    assert found - less == {package}


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("# a comment\ndef f(x):\n    return x + 1\n", True),
        ('def f(x):\n    """Said."""\n    return x + 1  # and why\n', True),
        ("def f(x):\n    return (x\n        + 1)\n", True),
        ("def f(x):\n    return x + 2\n", False),
        ("def f(x):\n    return x + 1.0\n", False),
        ("def f(y):\n    return y + 1\n", False),
        ('def f(x):\n    "a"; "b"\n    return x + 1\n', False),
    ],
)
def test_code_counts_by_its_syntax_tree(text: str, same: bool) -> None:
    first = code.read_source("a.py", "def f(x):\n    return x + 1\n")
    assert (code.read_source("a.py", text) == first) is same


def test_what_is_remembered_is_what_would_be_read(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(code, "MEMORY", tmp_path / "new" / "sources.json")
    found = code.code_of("02_train.py")
    code.keep()
    code._remembered.clear()
    code.remember.cache_clear()
    assert code.remember() and code.code_of("02_train.py") == found
    code.MEMORY.write_text("[1]")
    code.remember.cache_clear()
    assert not code.remember() and code.code_of("02_train.py") == found
