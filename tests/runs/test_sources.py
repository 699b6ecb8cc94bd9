"""Which files a program runs, against the syntax trees of all of them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from lib.runs import sources
from tests.stages import REPOSITORY, SCRIPTS

EVERY = [
    str(path.relative_to(REPOSITORY))
    for path in (*REPOSITORY.glob("0*.py"), *(REPOSITORY / "lib").rglob("*.py"))
]


def parsed(path: str) -> set[str]:
    """What :func:`lib.runs.sources.imports_of` should find, from the file's syntax tree."""
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


@pytest.mark.parametrize("path", EVERY)
def test_imports_are_those_of_the_syntax_tree(path: str) -> None:
    assert sources.imports_of(path) == parsed(path)


def test_a_stage_runs_what_it_imports_at_any_distance() -> None:
    found = sources.sources_of("02_train.py")
    wanted = {
        "02_train.py",
        "lib/train/loss.py",
        "lib/tpugraphs/opcodes.py",
        "lib/native/local.cpp",
    }
    assert wanted <= set(found)
    assert "lib/report/page.py" not in found
    assert "lib/report/page.css" in sources.sources_of("04_ensemble.py")


def test_make_is_told_in_words() -> None:
    line = [sys.executable, "-SE", "lib/runs/sources.py", *SCRIPTS]
    said = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=True).stdout
    told = dict(word.split("=") for word in said.split())
    assert list(told) == list(SCRIPTS)
    assert told["03_infer.py"].split(":") == sources.sources_of("03_infer.py")
