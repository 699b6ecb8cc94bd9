"""The code that a stage runs for a model, as fingerprints of files.

It is worked out from syntax trees: nothing is imported, and nothing but the standard library is
needed, so that Make can ask before there is an environment. Comments and docstrings do not count.
A module counts with the packages that hold it, and a package of C++ files with these. What is
looked up by name (:mod:`lib.systems`, and the settings of a model) is counted for the stage that
runs it.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from lib.files.artifacts import read_json, write_json
from lib.files.errors import DataError
from lib.settings import Settings
from lib.systems import SYSTEMS

ROOT = Path(__file__).resolve().parents[2]  # the repository
MEMORY = Path(__file__).with_name("__pycache__") / "sources.json"  # where Python keeps its own
SCRIPTS = {
    **{"preprocess": "01_preprocess.py", "train": "02_train.py"},
    **{"infer": "03_infer.py", "ensemble": "04_ensemble.py"},
}
STAGES = tuple(SCRIPTS)
TRAINED_BY = ("network", "input", "fold", "steps")  # names in a model's settings
NO_CODE = (  # compared by value, or a table of names
    *("lib/settings/", "lib/systems.py"),
    *(
        place.partition(":")[0].replace(".", "/") + ".py"
        for system in SYSTEMS.values()
        for place in system.models.values()
    ),
)
NO_RESULT = (
    *NO_CODE,
    *("lib/__init__.py", "lib/files/", "lib/runs/", "lib/report/"),
    *("lib/ranking/metrics.py", "lib/programs/metrics.py"),
)
READ_BY_MODULES = (".cpp", ".h", ".html", ".css", ".js", ".mplstyle")  # of the same folder
C_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
DIGITS = 16  # of a fingerprint
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


class Source(NamedTuple):
    """The parts of a file that count.

    Attributes:
        digest: fingerprint of its code.
        imports: dotted names that it imports, those within functions too.
    """

    digest: str
    imports: list[str]


@cache
def code_for(stage: str, settings: Settings) -> dict[str, str]:
    """Return fingerprints of the code that a stage runs for a model, by file.

    Rooms that read, write, check and log do not count in stages 1 to 3, nor what validation is
    measured by: their results do not depend on them.
    """
    system = SYSTEMS[settings.kind]
    named = {
        "preprocess": (system.preprocess,),
        "train": tuple(getattr(settings, name, "") for name in TRAINED_BY),
        "infer": (system.infer, settings.input, settings.network),
        "ensemble": (system.ensemble, system.ranking, system.report),
    }[stage]
    aside = NO_CODE if stage == "ensemble" else NO_RESULT
    return code_of(SCRIPTS[stage], system.cache, *filter(None, named), aside=aside)


def code_of(*programs: str, aside: tuple[str, ...] = ()) -> dict[str, str]:
    """Return fingerprints of the code that some programs run, by file.

    Args:
        programs: paths relative to the repository, such as ``02_train.py``; or names, such as
            ``lib.models.tgraph.network:TGraph``.
        aside: starts of paths that do not count, nor do imports through them alone.
    """
    remember()
    digests: dict[str, str] = {}
    waiting = [file for program in programs for file in _named(program)]
    while waiting:
        path = waiting.pop()
        if path in digests or path.startswith(aside):
            continue
        source = source_of(path)
        digests[path] = source.digest
        waiting += imports_of(source)
    for folder in {path.rpartition("/")[0] for path in digests} - {""}:
        for name in _files(folder):
            if name.endswith(READ_BY_MODULES):
                digests[f"{folder}/{name}"] = source_of(f"{folder}/{name}").digest
    return dict(sorted(digests.items()))


def imports_of(source: Source) -> frozenset[str]:
    """Return the files of ``lib/`` that a file imports, those within functions too."""
    return frozenset(file for name in source.imports for file in _files_of(name.split(".")))


def source_of(path: str) -> Source:
    """Return what counts of a file of the repository, from memory or from its text."""
    text = (ROOT / path).read_bytes()
    key = _digits(path.rpartition(".")[2], text.decode())
    if key not in _remembered:
        _remembered[key] = read_source(path, text.decode())
    return _remembered[key]


_remembered: dict[str, Source] = {}  # by the fingerprint of a file's text


@cache
def remember() -> int:
    """Read what earlier processes have parsed, which takes a second; return of how many files."""
    sources: dict[str, Source] = {}
    with suppress(DataError, TypeError, AttributeError):  # whose loss is a second
        sources = {key: Source(*fields) for key, fields in read_json(MEMORY).items()}
    _remembered.update(sources)
    return len(sources)


def keep() -> None:
    """Write what was parsed for later processes, if there is more of it now."""
    if len(_remembered) > remember() or not MEMORY.exists():
        with suppress(OSError):
            MEMORY.parent.mkdir(exist_ok=True)
            write_json(MEMORY, _remembered)


def read_source(path: str, text: str) -> Source:
    """Return what counts of a file's text."""
    if not path.endswith(".py"):
        words = C_COMMENT.sub(" ", text).split() if path.endswith((".cpp", ".h")) else [text]
        return Source(_digits(*words), [])
    imports: list[str] = []
    words = list(_words(ast.parse(text), imports))
    modules = sorted({name for name in imports if name.partition(".")[0] == "lib"})
    return Source(_digits(*words), modules)


def _words(node: object, imports: list[str]) -> Iterator[str]:
    """A syntax tree in words; what it imports is put into the list."""
    if isinstance(node, list):
        yield "["
        for child in node:
            yield from _words(child, imports)
        yield "]"
    elif not isinstance(node, ast.AST):
        yield repr(node)
    else:
        imports += _imported(node)
        yield type(node).__name__
        for name, value in ast.iter_fields(node):
            if name == "body" and isinstance(node, DOCUMENTED) and ast.get_docstring(node, False):
                value = value[1:]
            if value is not None and value != []:  # what versions of Python have in different ways
                yield name
                yield from _words(value, imports)


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module:
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def _digits(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:DIGITS]


def _named(program: str) -> list[str]:
    """The files of a path, or of a name."""
    module, colon, _ = program.partition(":")
    return _files_of(module.split(".")) if colon else [program]


def _files_of(parts: list[str]) -> list[str]:
    """The module of a dotted name, and the packages that hold it."""
    files = []
    for length in range(1, len(parts) + 1):
        *folders, name = parts[:length]
        if "__init__.py" in _files("/".join(parts[:length])):
            files.append("/".join([*parts[:length], "__init__.py"]))
        elif f"{name}.py" in _files("/".join(folders)):
            files.append("/".join([*folders, f"{name}.py"]))
    return files


@cache
def _files(folder: str) -> frozenset[str]:
    """Names in a folder; none if it is no folder."""
    path = ROOT / folder
    return frozenset(entry.name for entry in path.iterdir()) if path.is_dir() else frozenset()
