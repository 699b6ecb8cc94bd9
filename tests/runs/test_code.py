"""Which files a program runs, against the syntax trees of all of them."""

from __future__ import annotations

import pytest

from lib.runs import code


def test_a_program_runs_what_it_imports_at_any_distance() -> None:
    found = code.code_of("02_train.py")
    wanted = {"02_train.py", "lib/training/loss.py", "lib/tpugraphs/opcodes.py"}
    assert wanted | {"lib/native/local.cpp"} <= found.keys()
    assert "lib/report/page.py" not in found
    assert "lib/models/segments/training.py" not in found  # which is looked up by name
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
