"""The rules of the house, read from the syntax trees of the repository (CONTRIBUTING.md).

A room is a folder of ``lib/``, or of ``lib/models/``. Rooms stand on floors, and imports go down;
rooms of one floor do not import each other. Each rule has a case that breaks it.
"""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from lib.runs.code import ROOT, SCRIPTS, TRAINED_BY, code_of, imports_of, source_of
from lib.settings import MODELS, Settings
from lib.settings.base import setting
from lib.systems import SYSTEMS

FLOORS = (  # from the ground up
    {"files"},
    {"tpugraphs", "native"},
    {"cache"},
    {"compiler"},
    {"ranking"},
    {"settings"},
    {"runs"},
    {"models/common"},
    {"training", "models/tgraph"},
    {"models/tgraph_plus", "models/prices", "models/tile", "models/segments"},
    {"preprocess"},
    {"scoring"},
    {"report"},
    {"tune"},
    {"programs"},  # it uses the core, never the other way
    {"collect"},  # which measures, and which nothing imports
)
TABLE = "lib/systems.py"
LOOSE = {"lib/__init__.py", "lib/models/__init__.py", TABLE}
NETWORK = re.compile(
    r"lib/models/\w+/network\.py"
    r"|lib/models/common/(activation|attention|batch|blocks_gpu|fused|kernels|replay|rows|sage|scatter)\.py"
    r"|lib/models/segments/(gat|batch)\.py|lib/programs/models/\w+\.py"
)
OF_NETWORKS = re.compile(r"lib/native/.*|lib/.*settings\.py|lib/.*__init__\.py")  # may be imported
NO_TENSORS = {"os", "pathlib", "json", "polars", "safetensors", "wandb"}
MOST_LINES, MOST_LINES_OF_FILE = 60, 400  # of a function, without its docstring; of a file
Imports = dict[str, set[str]]  # of files of lib/, by their paths
Texts = dict[str, str]


def files_of_tree() -> Texts:
    """Return the text of each script and module."""
    paths = (*sorted(ROOT.glob("0*.py")), *sorted((ROOT / "lib").rglob("*.py")))
    return {str(path.relative_to(ROOT)): path.read_text() for path in paths}


def imports_of_tree() -> Imports:
    """Return which modules of ``lib/`` each file imports."""
    return {path: set(imports_of(source_of(path))) - {path} for path in files_of_tree()}


def room(path: str) -> str:
    """Return the room of a module; of a loose one, its path."""
    parts = Path(path).parts
    if path in LOOSE or len(parts) < 3:
        return path
    return "/".join(parts[1:3]) if parts[1] == "models" else parts[1]


def floor(path: str) -> int:
    """Return the number of a module's floor; of one on none, one that all others are above of."""
    return next((number for number, rooms in enumerate(FLOORS) if room(path) in rooms), -1)


def homeless(imports: Imports) -> list[str]:
    """Return modules that stand on no floor."""
    return [path for path in imports if floor(path) < 0 and path not in (*LOOSE, *SCRIPTS.values())]


def arrows_up(imports: Imports) -> list[str]:
    """Return imports of a room that does not stand below, or of anything by the table."""
    return [
        f"{path} imports {other}"
        for path, others in imports.items()
        for other in others - LOOSE
        if path == TABLE or (room(path) != room(other) and floor(other) >= floor(path) >= 0)
    ]


def hardware_that_meets(imports: Imports) -> list[str]:
    """Return imports of the TPU's compiler by the CPU's, and the other way round."""
    cpu, tpu = "lib/compiler/cpu/", "lib/compiler/tpu.py"
    pairs = [(path, other) for path, others in imports.items() for other in others]
    every = [(a, b) for a, b in pairs if a.startswith("lib/compiler/")]
    return [
        f"{a} imports {b}" for a, b in every if b == tpu or b.startswith(cpu) > a.startswith(cpu)
    ]


def networks_that_know_more(imports: Imports) -> list[str]:
    """Return imports by networks of anything but tensors' own modules and types of settings."""
    return [
        f"{path} imports {other}"
        for path, others in imports.items()
        if NETWORK.fullmatch(path)
        for other in others
        if not NETWORK.fullmatch(other) and not OF_NETWORKS.fullmatch(other)
    ]


def stages_that_know(imports: Imports) -> list[str]:
    """Return imports of one model's folder, or of a system's, by stages, which have the table."""
    own = re.compile(r"lib/models/(?!common|__init__).*|lib/(programs|collect)/.*")
    pairs = [(path, other) for path in SCRIPTS.values() for other in imports.get(path, ())]
    return [f"{path} imports {other}" for path, other in pairs if own.fullmatch(other)]


@cache
def tree_of(text: str) -> ast.Module:
    """Return a module's syntax tree."""
    return ast.parse(text)


def packages(text: str) -> set[str]:
    """Return the packages that a module imports."""
    nodes = list(ast.walk(tree_of(text)))
    names = [one.name for node in nodes if isinstance(node, ast.Import) for one in node.names]
    names += [node.module or "" for node in nodes if isinstance(node, ast.ImportFrom)]
    return {name.partition(".")[0] for name in names}


def networks_that_read(texts: Texts) -> list[str]:
    """Return networks that import what reads files, arrays or accounts."""
    return [p for p, text in texts.items() if NETWORK.fullmatch(p) and packages(text) & NO_TENSORS]


def kinds_told_apart(texts: Texts) -> list[str]:
    """Return tables, and comparisons in stages, that have something for several kinds or models."""
    words = {*SYSTEMS, *(model for system in SYSTEMS.values() for model in system.models)}
    found = []
    for path, text in texts.items():
        for node in ast.walk(tree_of(text)):
            values: list[ast.expr | None] = []
            if isinstance(node, ast.Dict) and path != TABLE and len(node.keys) > 1:
                if {getattr(key, "value", None) for key in node.keys} <= SYSTEMS.keys():
                    found.append(f"{path}:{node.lineno}")
            elif isinstance(node, ast.Compare) and path in SCRIPTS.values():
                values = [node.left, *node.comparators]
            elif isinstance(node, ast.MatchValue) and path in SCRIPTS.values():
                values = [node.value]
            if any(getattr(value, "value", None) in words for value in values):
                found.append(f"{path}:{node.lineno}")
    return found


def functions(text: str) -> Iterator[tuple[ast.FunctionDef, int]]:
    """Yield every function of a module, and its lines without the docstring."""
    for node in ast.walk(tree_of(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            docstring = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) else 0
            yield node, node.end_lineno - node.lineno + 1 - docstring


def long(texts: Texts) -> list[str]:
    """Return functions and files that are too long to be read at once."""
    long_functions = [
        f"{path}: {function.name}"
        for path, text in texts.items()
        for function, lines in functions(text)
        if lines > MOST_LINES
    ]
    generated = "_pb2.py"
    long_files = [p for p, t in texts.items() if len(t.splitlines()) > MOST_LINES_OF_FILE]
    return long_functions + [path for path in long_files if not path.endswith(generated)]


def undocumented(texts: Texts) -> list[str]:
    """Return public functions and classes of modules without a docstring."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    return [
        f"{path}: {node.name}"
        for path, text in texts.items()
        for node in tree_of(text).body
        if isinstance(node, kinds) and node.name[0] != "_" and not ast.get_docstring(node)
    ]


def unread(kind: type[Settings]) -> set[str]:
    """Return settings of a model whose names occur nowhere in the code that it runs."""
    system = SYSTEMS[kind.kind]
    named = [system.cache, system.preprocess, system.infer, system.ensemble, system.ranking]
    named += [system.report, *(getattr(kind, name, "") for name in TRAINED_BY)]
    files = code_of(*SCRIPTS.values(), *filter(None, named))
    read = set().union(*(names_in(path) for path in files if path.endswith(".py")))
    return {one.name for one in dataclasses.fields(kind) if "help" in one.metadata} - read


@cache
def names_in(path: str) -> set[str]:
    """Return the attributes that a file reads, by dots or getattr, and what its networks take."""
    nodes = list(ast.walk(ast.parse((ROOT / path).read_text())))
    calls = [one for one in nodes if isinstance(one, ast.Call)]
    asked = [one.args[1] for one in calls if getattr(one.func, "id", "") == "getattr"]
    names = {one.attr for one in nodes if isinstance(one, ast.Attribute)}
    made = [one for one in nodes if getattr(one, "name", "") == "__init__"]  # by build_network
    names |= {argument.arg for one in made for argument in one.args.args}
    return names | {getattr(one, "value", "") for one in asked}


RULES = (homeless, arrows_up, hardware_that_meets, networks_that_know_more, stages_that_know)
RULES_OF_TEXTS = (networks_that_read, kinds_told_apart, long, undocumented)


@pytest.mark.parametrize("rule", [*RULES, *RULES_OF_TEXTS])
def test_the_house_keeps_a_rule(rule) -> None:
    assert rule(imports_of_tree() if rule in RULES else files_of_tree()) == []


@pytest.mark.parametrize("kind", [one for models in MODELS.values() for one in models.values()])
def test_a_model_reads_all_of_its_settings(kind) -> None:
    assert unread(kind) == set()
    more = [("read_by_nobody", int, setting(1, "a setting that nobody reads"))]
    assert unread(dataclasses.make_dataclass("More", more, bases=(kind,), frozen=True))


@pytest.mark.parametrize(
    ("path", "other", "rule"),
    [
        ("lib/stray.py", "lib/files/errors.py", homeless),
        ("lib/cellar/wine.py", "lib/files/errors.py", homeless),
        ("lib/files/errors.py", "lib/cache/reader.py", arrows_up),
        ("lib/models/tile/network.py", "lib/models/prices/network.py", arrows_up),
        ("lib/report/page.py", "lib/programs/train.py", arrows_up),
        ("lib/programs/train.py", "lib/collect/xla/bench.py", arrows_up),
        ("lib/systems.py", "lib/training/fold.py", arrows_up),
        ("lib/compiler/tpu.py", "lib/compiler/cpu/loops.py", hardware_that_meets),
        ("lib/compiler/cpu/loops.py", "lib/compiler/tpu.py", hardware_that_meets),
        ("02_train.py", "lib/models/tgraph/training.py", stages_that_know),
        ("lib/models/tile/network.py", "lib/cache/reader.py", networks_that_know_more),
        ("lib/models/common/sage.py", "lib/runs/tracking.py", networks_that_know_more),
    ],
)
def test_an_import_that_breaks_a_rule_is_found(path: str, other: str, rule) -> None:
    imports = imports_of_tree()
    imports.setdefault(path, set()).add(other)
    assert rule(imports)


@pytest.mark.parametrize(
    ("path", "text", "rule"),
    [
        ("lib/models/tile/network.py", "from pathlib import Path", networks_that_read),
        ("lib/a.py", 'A = {"layout": 1, "tile": 2}', kinds_told_apart),
        ("02_train.py", 'def f(s):\n    return s.kind == "tile"', kinds_told_apart),
        ("lib/a.py", "def f():\n" + "    x = 1\n" * MOST_LINES, long),
        ("lib/a.py", "\n" * (MOST_LINES_OF_FILE + 1), long),
        ("lib/a.py", "def f(): ...", undocumented),
    ],
)
def test_a_text_that_breaks_a_rule_is_found(path: str, text: str, rule) -> None:
    assert rule({path: text})
    assert rule({path: "X = 1\n"}) == []
