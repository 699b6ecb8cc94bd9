"""Which files a program of this repository runs, worked out from its imports.

One answer for two questions: what Make compares a stage's results with, and what a training state
is resumed by (:mod:`lib.runs.provenance`). Nothing is imported, and nothing but the standard
library is needed, so that Make can ask before there is an environment::

    python3 lib/runs/sources.py 01_preprocess.py 02_train.py

Import statements are found by their form and not by parsing, which takes a tenth of the time; a
test compares both. A module counts with the packages that hold it, and a package of files that are
no modules (C++, HTML, style sheets) with these.
"""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]  # the repository
BESIDE = (".cpp", ".h", ".html", ".css", ".js")  # read by the modules of their folder
FROM = re.compile(r"^ *from (lib[\w.]*) import (\([^)]*\)|.*)", re.MULTILINE)
IMPORT = re.compile(r"^ *import (lib[\w., ]*)", re.MULTILINE)
NAME = re.compile(r"(\w+)(?: as \w+)?")


def sources_of(*programs: str) -> list[str]:
    """The files that some programs run, themselves among them, sorted.

    Args:
        programs: paths relative to the repository, such as ``02_train.py``; the answers are, too.
    """
    met: set[str] = set()
    waiting = list(programs)
    while waiting:
        path = waiting.pop()
        if path not in met:
            met.add(path)
            waiting += imports_of(path)
    folders = {path.rpartition("/")[0] for path in met} - {""}
    beside = (f"{folder}/{name}" for folder in folders for name in _files(folder))
    return sorted(met.union(path for path in beside if path.endswith(BESIDE)))


@cache
def imports_of(path: str) -> frozenset[str]:
    """The files of ``lib/`` that a file imports, those within functions too."""
    text = (ROOT / path).read_text(encoding="utf-8")
    names = {name for found in IMPORT.findall(text) for name in found.replace(",", " ").split()}
    for module, imported in FROM.findall(text):
        listed = re.sub(r"#.*", "", imported)
        names |= {f"{module}.{name}" for name in NAME.findall(listed)}
    return frozenset(file for name in names for file in _files_of(name.split(".")))


def _files_of(parts: list[str]) -> list[str]:
    """The module of a dotted name, and the packages that hold it."""
    found = []
    for length in range(1, len(parts) + 1):
        *folders, name = parts[:length]
        if "__init__.py" in _files("/".join(parts[:length])):
            found.append("/".join([*parts[:length], "__init__.py"]))
        elif f"{name}.py" in _files("/".join(folders)):
            found.append("/".join([*folders, f"{name}.py"]))
    return found


@cache
def _files(folder: str) -> frozenset[str]:
    """Names in a folder; none if it is no folder."""
    path = ROOT / folder
    return frozenset(one.name for one in path.iterdir()) if path.is_dir() else frozenset()


if __name__ == "__main__":
    for one in sys.argv[1:]:  # words that Make can take apart
        print(f"{one}={':'.join(sources_of(one))}")
