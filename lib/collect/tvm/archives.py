"""Archives of ``torch.export`` that may be anybody's: what is read of one runs no code.

``torch.export.load`` evaluates expressions and conditions that stand in the archive as Python,
makes code of the names in it, unpickles objects, and loads compiled libraries. So only the parts
that describe a network are read, from a copy whose every text was checked before.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import torch
from torch.export import ExportedProgram

from lib.collect.tvm.reasons import one_line_of
from lib.files.errors import DataError

# The parts that are read: no compiled libraries (data/aotinductor) and no files of others (extra).
PARTS = re.compile(
    r"[^/]+/(models/\w+\.json|data/(weights|constants)/\w+(\.json|\.pt)?|data/sample_inputs/\w+\.pt"
    r"|archive_format|archive_version|byteorder|version|\.data/\w+)"
)
TEXT = re.compile(r"[\w.:<>,/+-]*")  # of which no code can be made
WORDS = re.compile(r"[\w.:<>,/+ -]*")  # an argument of an operator, such as an equation of einsum
TARGET = re.compile(
    r"torch\.ops\.(aten|prims|higher_order)\.(?!from_file\b)\w+(\.\w+)?|torch\.(_sym_|sym_)\w+"
    r"|math\.(trunc|ceil|floor|sqrt|pow)|_operator\.(add|sub|mul|truediv|floordiv|mod|pow|neg|pos"
    r"|eq|ne|lt|le|gt|ge|and_|or_|not_|getitem)"
)
TENSOR = re.compile(r"(weight|tensor)_\d+|")  # a part that holds numbers, and no pickled object
LAYERS = ("nn_module_stack", "torch_fn")  # what metadata say of the layer that a step is of
FUNCTIONS = {
    *("Symbol", "Integer", "Float", "Rational", "Add", "Mul", "Pow", "Max", "Min", "Mod", "Abs"),
    *("FloorDiv", "ModularIndexing", "Where", "PythonMod", "CleanDiv", "CeilToInt", "FloorToInt"),
    *("CeilDiv", "PowByNatural", "FloatPow", "FloatTrueDiv", "IntTrueDiv", "TruncToFloat"),
    *("TruncToInt", "RoundToInt", "RoundDecimal", "ToFloat", "Identity", "floor", "ceiling"),
    *("LShift", "RShift", "IsNonOverlappingAndDenseIndicator", "And", "Or", "Not"),
    *("Equality", "Unequality", "GreaterThan", "LessThan", "StrictGreaterThan", "StrictLessThan"),
    *("Eq", "Ne", "Ge", "Le", "Gt", "Lt"),
}
NODES = (
    *(ast.Expression, ast.Load, ast.BinOp, ast.UnaryOp, ast.Compare, ast.keyword, ast.cmpop),
    *(ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.USub),
)
LONGEST = 10_000  # characters of an expression


def load(path: Path) -> ExportedProgram:
    """Return the network of an archive, without the conditions on its inputs.

    Raises:
        UserError: it is no such archive, or has what could run as code.
    """
    os.environ["TORCH_FORCE_WEIGHTS_ONLY_LOAD"] = "1"  # else torch would unpickle anything
    with one_line_of(str(path), "torch.export cannot read it"), tempfile.TemporaryFile() as copy:
        with zipfile.ZipFile(path) as archive, zipfile.ZipFile(copy, "w") as checked:
            names = [name for name in archive.namelist() if PARTS.fullmatch(name)]
            if len({name.lower() for name in names}) < len(names):
                raise DataError(path, "parts", "two of one name", "one")
            for name in names:
                _copy_part(path, archive, checked, name)
        copy.seek(0)
        return torch.export.load(copy)


def _copy_part(path: Path, archive: zipfile.ZipFile, checked: zipfile.ZipFile, name: str) -> None:
    """Copy a part of an archive; JSON as it was checked."""
    if not name.endswith(".json"):
        with archive.open(name) as part, checked.open(name, "w", force_zip64=True) as copy:
            shutil.copyfileobj(part, copy)
        return
    content = json.loads(archive.read(name))
    try:
        content = _checked(content)
    except ValueError as error:
        field = name.partition("/")[2]
        raise DataError(path, field, f"{str(error)[:100]!r}", "no code, which is not run") from None
    checked.writestr(name, json.dumps(content))


def _checked(value: Any, key: str = "") -> Any:
    """Return a value of JSON without what is not needed.

    Raises:
        ValueError: there is a text in it of which code could be made; says which.
    """
    match value:
        case dict():
            if "guards_code" in value:
                value = {**value, "guards_code": []}
            if "target" in value and "inputs" in value and not TARGET.fullmatch(value["target"]):
                raise ValueError(value["target"])
            if key == "metadata":
                return {name: text for name, text in value.items() if name in LAYERS}
            return {_checked(name): _checked(part, name) for name, part in value.items()}
        case list():
            return [_checked(part, key) for part in value]
        case str() if key == "expr_str":
            _check_expression(value)
        case str() if key in ("in_spec", "out_spec", "context") and value[:1] in ("[", "{", '"'):
            _check_context(json.loads(value))
        case str() if not {"path_name": TENSOR, "as_string": WORDS}.get(key, TEXT).fullmatch(value):
            raise ValueError(value)
    return value


def _check_context(value: Any) -> None:
    """Raise a ValueError if a description of nested inputs or results names code to import."""
    if "__enum__" in str(value) or "default_factory" in str(value):
        raise ValueError(str(value))
    _checked(value, "context")


def _check_expression(text: str) -> None:
    """Raise a ValueError unless a text is of sizes, numbers and functions of them alone.

    ``sympy`` runs it as Python.
    """
    try:
        nodes = [*ast.walk(ast.parse(text[: LONGEST + 1], mode="eval"))]
    except (SyntaxError, RecursionError, MemoryError):
        nodes = []
    called = [node.func for node in nodes if isinstance(node, ast.Call)]
    good = [
        isinstance(node, NODES)
        or (isinstance(node, ast.Call) and isinstance(node.func, ast.Name))
        or (isinstance(node, ast.Name) and (node.id in FUNCTIONS or node not in called))
        or (isinstance(node, ast.Constant) and isinstance(node.value, int | float | bool))
        or (isinstance(node, ast.Constant) and str(node.value).isidentifier())
        for node in nodes
    ]
    if not nodes or len(text) > LONGEST or not all(good):
        raise ValueError(text)
