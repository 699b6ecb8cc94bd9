"""Checks of a JSON document against a schema."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lib.files.errors import DataError

NAMES = {str: "text", int: "a whole number", float: "a finite number", bool: "true or false"}
NAMES |= {dict: "an object", list: "a list"}
SHOWN = 60  # characters of a value in a message


def expect(document: Any, schema: Any, path: Path | str, field: str = "", advice: str = "") -> Any:
    """The document itself, if it fits a schema.

    Args:
        document: a JSON document, or a part of one.
        schema: one of

            * a type: ``str``, ``int``, ``float`` (any finite number), ``bool``, ``dict``, ``list``;
            * ``[schema]``: a list of such;
            * ``{str: schema}``: an object of such, whatever their keys; ``{int: schema}`` if the
              keys are whole numbers, as text;
            * ``{"key": schema, ...}``: an object with these keys, and maybe others. One that ends
              in a question mark may be missing.
        path: the document's file.
        field: where in it ``document`` stands, with dots between keys.
        advice: what to do if it is not.

    Raises:
        DataError: naming the first field that is another.
    """
    if not _is(document, schema):
        name = NAMES[type(schema) if isinstance(schema, dict | list) else schema]
        raise _error(path, field, repr(document), name, advice)
    for key, value, part in _parts(document, schema, path, field, advice):
        expect(value, part, path, key, advice)
    return document


def _parts(
    document: Any, schema: Any, path: Path | str, field: str, advice: str
) -> Iterator[tuple[str, Any, Any]]:
    """Yield the place of each part of a list or an object, the part, and its schema."""
    if isinstance(schema, list):
        yield from ((f"{field}[{index}]", value, schema[0]) for index, value in enumerate(document))
    elif isinstance(schema, dict) and schema.keys() & {str, int}:
        ((kind, part),) = schema.items()
        for key, value in document.items():
            whole = key.isascii() and key.isdecimal()
            text = not any("\ud800" <= character <= "\udfff" for character in key)
            if not (whole if kind is int else text):  # half a character cannot be written
                raise _error(path, field, f"the key {key!r}", NAMES[kind], advice)
            yield _below(field, key), value, part
    elif isinstance(schema, dict):
        for key, part in schema.items():
            name = key.removesuffix("?")
            if name in document:
                yield _below(field, name), document[name], part
            elif name == key:
                raise _error(path, _below(field, name), "nothing", "it", advice)


def _error(path: Path | str, field: str, shown: str, expected: str, advice: str) -> DataError:
    then = f"; {advice}" if advice else ""
    return DataError(path, field or "document", shown[:SHOWN], expected + then)


def _is(value: Any, schema: Any) -> bool:
    if isinstance(schema, dict | list):
        return isinstance(value, type(schema))
    if schema is float:
        try:
            return type(value) in (int, float) and math.isfinite(value)
        except OverflowError:  # an integer of hundreds of digits
            return False
    return type(value) is schema  # true is no number


def _below(field: str, key: str) -> str:
    return f"{field}.{key}" if field else key
