"""The house: which room may import which, read from the imports of the tree.

Rooms are the folders of ``lib/``; they stand on floors, and imports go down. A wing, which is a
room of one stage, never imports another wing: wings meet in files. Whoever measures, above all, is
imported by nobody. What there is of a kind of collections stands in one table. Functions and files
are short enough to be read at once, and say what their settings are. The core has few rooms
and lines.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from lib.models.common.settings import HARDWARE
from lib.runs.code import ROOT, imports_of, source_of
from lib.systems import SYSTEMS

FLOORS = (  # from the ground up
    {"files"},
    {"tpugraphs"},
    {"cache", "native"},
    {"compiler"},
    {"ranking"},
    {"settings"},
    {"runs"},
    {"download"},
    {"models"},
    {"inputs"},
    {"preprocess", "train", "scoring"},
    {"report"},
    {"study", "tune"},
    {"cluster"},
    {"programs", "experiments"},
    {"collect"},
)
WINGS = {"preprocess", "train", "scoring"}
NETWORKS = ("lib/models/", "lib/programs/models/", "lib/experiments/models/")
NETWORKS_MAY_IMPORT = (  # of settings, types
    *("lib/models/", "lib/native/", "lib/files/", "lib/settings/"),
    *("lib/programs/models/", "lib/programs/settings.py", "lib/programs/__init__.py"),
    *("lib/experiments/models/", "lib/experiments/settings.py", "lib/experiments/__init__.py"),
)
COMPILER = "lib/compiler/"
TABLE = "lib/systems.py"
LOOSE = {"lib/__init__.py", TABLE}
MOST_LINES = 40  # of a function, from `def` to its end
MOST_LINES_OF_FILE = 300
# Of the core, which a reader is to keep in mind; what leans on it is beside it.
BESIDE = {"programs", "experiments", "collect"}
MOST_ROOMS, MOST_ARROWS, MOST_LINES_OF_CORE = 18, 100, 23_400
REASON = "# longer: "  # on the line of a function's `def`: why it is longer
Imports = dict[str, set[str]]  # of modules, as paths


def imports_of_tree() -> Imports:
    """What each module of ``lib/`` imports."""
    files = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "lib").rglob("*.py"))]
    return {file: set(imports_of(source_of(file))) - {file} for file in files}


def room(path: str) -> str:
    """The room of a module; of a loose one, its own name."""
    return Path(path).parts[1]


def floor(name: str) -> int:
    """The floor of a room."""
    return next(number for number, rooms in enumerate(FLOORS) if name in rooms)


def loose(imports: Imports) -> list[str]:
    """Modules of ``lib/`` in no room."""
    return [path for path in imports if len(Path(path).parts) == 2 and path not in LOOSE]


def arrows_up(imports: Imports) -> list[str]:
    """Imports of a room that does not stand below."""
    return [
        f"{path} imports {other}"
        for path, others in imports.items()
        for other in others
        if len(Path(path).parts) > 2 < len(Path(other).parts)
        and room(path) != room(other)
        and floor(room(other)) >= floor(room(path))
    ]


def wings_that_meet(imports: Imports) -> list[str]:
    """Imports of one wing by another."""
    return [
        f"{path} imports {other}"
        for path, others in imports.items()
        for other in others
        if {room(path), room(other)} <= WINGS and room(path) != room(other)
    ]


def measuring(imports: Imports) -> list[str]:
    """Imports of ``collect/`` by another room, or of anything by the table of systems."""
    return [
        f"{path} imports {other}"
        for path, others in imports.items()
        for other in others
        if (room(other) == "collect" != room(path)) or path == TABLE
    ]


def hardware_that_meets(imports: Imports) -> list[str]:
    """Imports of what ``compiler/`` knows of one hardware by another part of it."""

    def part(path: str) -> str:
        name = Path(path).parts[2].removesuffix(".py")
        return name if name in HARDWARE else ""

    return [
        f"{path} imports {other}"
        for path, others in imports.items()
        for other in others
        if path.startswith(COMPILER) and other.startswith(COMPILER) and part(other)
        if part(other) != part(path)
    ]


def tables_by_kind(path: str, text: str) -> list[str]:
    """Tables that have something for each of several kinds of collections."""
    return [
        f"{path}:{node.lineno}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Dict) and len(node.keys) > 1 and path != TABLE
        if {getattr(key, "value", None) for key in node.keys} <= SYSTEMS.keys()
    ]


def rings(imports: Imports) -> list[list[str]]:
    """Modules that import each other, a path around each ring that is found first."""
    done: set[str] = set()
    found: list[list[str]] = []

    def visit(path: str, trail: list[str]) -> None:
        if path in trail:
            found.append([*trail[trail.index(path) :], path])
        elif path not in done:
            for other in sorted(imports.get(path, ())):
                if not other.endswith("__init__.py") or not path.startswith(other[:-11]):
                    visit(other, [*trail, path])
            done.add(path)

    for path in sorted(imports):
        visit(path, [])
    return found


def files_of_tree() -> Iterator[tuple[str, str]]:
    """The scripts and the modules of ``lib/``: path and text."""
    for path in (*sorted(ROOT.glob("0*.py")), *sorted((ROOT / "lib").rglob("*.py"))):
        yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")


def functions(text: str) -> Iterator[ast.FunctionDef]:
    """Every function and method of a module."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def long_functions(path: str, text: str) -> list[str]:
    """Functions of more than ``MOST_LINES`` lines that do not say why."""
    lines = text.splitlines()
    return [
        f"{path}: {one.name}"
        for one in functions(text)
        if one.end_lineno - one.lineno + 1 > MOST_LINES and REASON not in lines[one.lineno - 1]
    ]


def untyped_settings(path: str, text: str) -> list[str]:
    """Functions with settings that nobody can look up: of any type, or of none."""
    return [
        f"{path}: {one.name}"
        for one in functions(text)
        for argument in (*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs)
        if argument.arg == "settings"
        and (argument.annotation is None or ast.unparse(argument.annotation) == "Any")
    ]


def test_functions_are_short() -> None:
    found = {name for path, text in files_of_tree() for name in long_functions(path, text)}
    assert found == set()


def test_files_are_short() -> None:
    lengths = {path: len(text.splitlines()) for path, text in files_of_tree()}
    assert {path for path, length in lengths.items() if length > MOST_LINES_OF_FILE} == set()


def test_settings_have_a_type() -> None:
    found = {name for path, text in files_of_tree() for name in untyped_settings(path, text)}
    assert found == set()


def test_a_function_counts_from_its_def_to_its_end() -> None:
    def function(lines: int, reason: str = "") -> str:
        return f"@decorated\ndef f():{reason}\n" + "    x = 1\n" * (lines - 1)

    assert long_functions("a.py", function(MOST_LINES)) == []
    assert long_functions("a.py", function(MOST_LINES + 1)) == ["a.py: f"]
    assert long_functions("a.py", function(MOST_LINES + 1, f"  {REASON}one table")) == []
    method = "class A:\n" + "".join(f"    {line}\n" for line in function(41).splitlines())
    assert long_functions("a.py", method) == ["a.py: f"]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ("settings: Any", ["a.py: f"]),
        ("*, settings", ["a.py: f"]),
        ("settings: Settings", []),
        ("values: Any", []),
    ],
)
def test_settings_of_any_type_are_found(arguments: str, found: list[str]) -> None:
    assert untyped_settings("a.py", f"def f({arguments}): ...") == found


def test_no_module_is_loose() -> None:
    assert loose(imports_of_tree()) == []


def test_imports_go_down() -> None:
    assert arrows_up(imports_of_tree()) == []


def test_wings_meet_in_files() -> None:
    assert wings_that_meet(imports_of_tree()) == []


def test_what_holds_for_one_hardware_lies_under_its_name() -> None:
    assert hardware_that_meets(imports_of_tree()) == []


def test_nothing_imports_who_measures_and_systems_import_nothing() -> None:
    assert measuring(imports_of_tree()) == []


def test_kinds_of_collections_have_one_table() -> None:
    found = {name for path, text in files_of_tree() for name in tables_by_kind(path, text)}
    assert found == set()
    table = 'A = {"layout": 1, "tile": 2}'
    assert tables_by_kind("a.py", table) == ["a.py:1"] and tables_by_kind(TABLE, table) == []


def test_the_core_is_small() -> None:
    imports = imports_of_tree()
    core = {path for path in imports if path in LOOSE or room(path) not in BESIDE}
    rooms = {room(path) for path in core - LOOSE}
    arrows = {
        (room(path), room(other))
        for path in core - LOOSE
        for other in imports[path] - LOOSE
        if room(path) != room(other)
    }
    lines = sum(len(text.splitlines()) for path, text in files_of_tree() if path in core)
    assert len(rooms) <= MOST_ROOMS and len(arrows) <= MOST_ARROWS
    assert lines <= MOST_LINES_OF_CORE, f"{lines:,} lines"


def test_no_rings() -> None:
    assert rings(imports_of_tree()) == []


def test_networks_know_tensors_only() -> None:
    imports = imports_of_tree()
    wrong = [
        f"{path} imports {other}"
        for path, others in imports.items()
        if path.startswith(NETWORKS)
        for other in others
        if len(Path(other).parts) > 2 and not other.startswith(NETWORKS_MAY_IMPORT)
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("path", "other", "rule"),
    [
        ("lib/files/errors.py", "lib/cache/reader.py", arrows_up),
        ("lib/cache/reader.py", "lib/training/loop.py", arrows_up),
        ("lib/training/loop.py", "lib/scoring/scores.py", wings_that_meet),
        ("lib/programs/search/scorer.py", "lib/collect/quiet.py", measuring),
        ("lib/training/loop.py", "lib/programs/train.py", arrows_up),
        ("lib/training/loop.py", "lib/experiments/embeddings.py", arrows_up),
        ("lib/programs/train.py", "lib/experiments/embeddings.py", arrows_up),
        ("lib/systems.py", "lib/training/loop.py", measuring),
        ("lib/compiler/tpu.py", "lib/compiler/cpu/loops.py", hardware_that_meets),
        ("lib/compiler/graph.py", "lib/compiler/cpu/loops.py", hardware_that_meets),
        ("lib/cache/format.py", "lib/cache/reader.py", rings),
        ("lib/stray.py", "lib/files/errors.py", loose),
    ],
)
def test_an_import_turned_round_is_found(path: str, other: str, rule) -> None:
    imports = imports_of_tree()
    imports.setdefault(path, set()).add(other)
    assert rule(imports)
