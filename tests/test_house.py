"""The house: which room may import which, read from the imports of the tree.

Rooms are the folders of ``lib/``; they stand on floors, and imports go down. A wing, which is a
room of one stage, never imports another wing: wings meet in files.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from lib.runs.sources import ROOT, imports_of

FLOORS = (  # from the ground up
    {"files"},
    {"tpugraphs", "tensorir"},
    {"cache", "native"},
    {"compiler"},
    {"ranking"},
    {"settings"},
    {"runs"},
    {"download"},
    {"models"},
    {"inputs"},
    {"preprocess", "train", "infer", "ensemble"},
    {"submit", "report"},
    {"study"},
    {"collect", "cluster"},
)
WINGS = {"preprocess", "train", "infer", "ensemble", "collect"}
NETWORKS_MAY_IMPORT = {"models", "native", "files"}
Imports = dict[str, set[str]]  # of modules, as paths


def imports_of_tree() -> Imports:
    """What each module of ``lib/`` imports."""
    files = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "lib").rglob("*.py"))]
    return {file: set(imports_of(file)) - {file} for file in files}


def room(path: str) -> str:
    """The room of a module; of a loose one, its own name."""
    return Path(path).parts[1]


def floor(name: str) -> int:
    """The floor of a room."""
    return next(number for number, rooms in enumerate(FLOORS) if name in rooms)


def loose(imports: Imports) -> list[str]:
    """Modules of ``lib/`` in no room."""
    return [path for path in imports if len(Path(path).parts) == 2 and path != "lib/__init__.py"]


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


def test_no_module_is_loose() -> None:
    assert loose(imports_of_tree()) == []


def test_imports_go_down() -> None:
    assert arrows_up(imports_of_tree()) == []


def test_wings_meet_in_files() -> None:
    assert wings_that_meet(imports_of_tree()) == []


def test_no_rings() -> None:
    assert rings(imports_of_tree()) == []


def test_networks_know_tensors_only() -> None:
    imports = imports_of_tree()
    wrong = [
        f"{path} imports {other}"
        for path, others in imports.items()
        if path.startswith("lib/models/")
        for other in others
        if len(Path(other).parts) > 2 and room(other) not in NETWORKS_MAY_IMPORT
    ]
    assert wrong == []


@pytest.mark.parametrize(
    ("path", "other", "rule"),
    [
        ("lib/files/errors.py", "lib/cache/reader.py", arrows_up),
        ("lib/cache/reader.py", "lib/train/loop.py", arrows_up),
        ("lib/train/loop.py", "lib/infer/scores.py", wings_that_meet),
        ("lib/ensemble/blend.py", "lib/collect/quiet.py", wings_that_meet),
        ("lib/cache/format.py", "lib/cache/reader.py", rings),
        ("lib/stray.py", "lib/files/errors.py", loose),
    ],
)
def test_an_import_turned_round_is_found(path: str, other: str, rule) -> None:
    imports = imports_of_tree()
    imports.setdefault(path, set()).add(other)
    assert rule(imports)
