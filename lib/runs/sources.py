"""Which code a program of this repository runs, worked out from its syntax trees.

Nothing is imported, and nothing but the standard library is needed, so that Make can ask before
there is an environment. Code counts without its comments and docstrings. A module counts with the
packages that hold it, and a package of files that are no modules (C++, HTML, style sheets) with
these.

A registry, a table of ``"name": "module:object"``, is no code: of its entries those count that are
chosen, and what they name is run. So another model, input or kind in it changes nothing.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from lib.files.artifacts import read_json, write_json
from lib.files.errors import DataError

ROOT = Path(__file__).resolve().parents[2]  # the repository
BESIDE = (".cpp", ".h", ".html", ".css", ".js")  # read by the modules of their folder
C_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
PLACE = re.compile(r"(lib(?:\.\w+)+):\w+")  # what a registry has for a name
DIGITS = 16  # of a fingerprint
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Source(NamedTuple):
    """What counts of a file.

    Attributes:
        digest: fingerprint of its code.
        imports: dotted names that it imports, those within functions too.
        tables: its registries.
    """

    digest: str
    imports: list[str]
    tables: list[dict[str, str]]


def code_of(
    *programs: str, chosen: Collection[str] | None = None, aside: tuple[str, ...] = ()
) -> dict[str, str]:
    """Fingerprints of the code that some programs run, by file.

    Args:
        programs: paths relative to the repository, such as ``02_train.py``; the answers are, too.
        chosen: names whose entries of registries are run; ``None`` for all.
        aside: what paths begin with that do not count, nor what is imported through them alone.
    """
    found: dict[str, str] = {}
    waiting = list(programs)
    while waiting:
        path = waiting.pop()
        if path in found or path.startswith(aside):
            continue
        source = source_of(path)
        places = sorted(
            place
            for table in source.tables
            for name, place in table.items()
            if chosen is None or name in chosen
        )
        found[path] = _digits(source.digest, *places)
        for name in (*source.imports, *(place.partition(":")[0] for place in places)):
            waiting += _files_of(name.split("."))
    for folder in {path.rpartition("/")[0] for path in found} - {""}:
        for name in _files(folder):
            if name.endswith(BESIDE):
                found[f"{folder}/{name}"] = source_of(f"{folder}/{name}").digest
    return dict(sorted(found.items()))


def imports_of(path: str) -> frozenset[str]:
    """The files of ``lib/`` that a file imports, those within functions too."""
    return frozenset(
        file for name in source_of(path).imports for file in _files_of(name.split("."))
    )


def source_of(path: str) -> Source:
    """What counts of a file of the repository, from what is remembered or from its text."""
    text = (ROOT / path).read_bytes()
    key = _digits(path.rpartition(".")[2], text.decode())
    if key not in _remembered:
        _remembered[key] = read_source(path, text.decode())
    return _remembered[key]


_remembered: dict[str, Source] = {}  # by what a file holds


@cache
def remember(file: Path) -> None:
    """Read what an earlier process has found of files, for parsing takes most of a second."""
    with suppress(DataError, TypeError, AttributeError):  # whose loss is a second
        _remembered.update({key: Source(*found) for key, found in read_json(file).items()})


def keep(file: Path) -> None:
    """Write it for later ones, if that can be."""
    with suppress(OSError):
        text = json.dumps(_remembered)
        if not file.exists() or len(text) != file.stat().st_size:
            write_json(file, _remembered)


def read_source(path: str, text: str) -> Source:
    """What counts of a file's text."""
    if not path.endswith(".py"):
        words = C_COMMENT.sub(" ", text).split() if path.endswith((".cpp", ".h")) else [text]
        return Source(_digits(*words), [], [])
    imports: list[str] = []
    tables: list[dict[str, str]] = []
    words = list(_words(ast.parse(text), imports, tables))
    own = sorted({name for name in imports if name.partition(".")[0] == "lib"})
    return Source(_digits(*words), own, tables)


def _words(node: object, imports: list[str], tables: list[dict[str, str]]) -> Iterator[str]:
    """A syntax tree in words; what it imports and its registries are put into the lists."""
    if isinstance(node, list):
        yield "["
        for one in node:
            yield from _words(one, imports, tables)
        yield "]"
    elif not isinstance(node, ast.AST):
        yield repr(node)
    elif table := _table(node):
        tables.append(table)
    else:
        imports += _imported(node)
        yield type(node).__name__
        for name, value in ast.iter_fields(node):
            if name == "body" and isinstance(node, DOCUMENTED) and ast.get_docstring(node, False):
                value = value[1:]
            if value is not None and value != []:  # what versions of Python have in different ways
                yield name
                yield from _words(value, imports, tables)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _table(node: ast.AST) -> Mapping[str, str] | None:
    """A registry's names and what it has for them; ``None`` for all else."""
    if not isinstance(node, ast.Dict) or not node.keys:
        return None
    pairs = {
        getattr(key, "value", None): getattr(value, "value", None)
        for key, value in zip(node.keys, node.values, strict=True)
    }
    whole = all(isinstance(one, str) for pair in pairs.items() for one in pair)
    return pairs if whole and all(map(PLACE.fullmatch, pairs.values())) else None


def _digits(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:DIGITS]


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
