"""What a JSON document must look like before it is believed."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lib.files.errors import DataError

NAMES = {str: "text", int: "a whole number", float: "a finite number", bool: "true or false"}
NAMES |= {dict: "an object", list: "a list"}
SHOWN = 60  # characters of a value in a message


def expect(found: Any, wanted: Any, path: Path | str, field: str = "", advice: str = "") -> Any:
    """The document itself, if it is what is wanted.

    Args:
        found: a JSON document, or a part of one.
        wanted: one of

            * a type: ``str``, ``int``, ``float`` (any finite number), ``bool``, ``dict``, ``list``;
            * ``[wanted]``: a list of such;
            * ``{str: wanted}``: an object of such, whatever their keys; ``{int: wanted}`` if the
              keys are whole numbers, as text;
            * ``{"key": wanted, ...}``: an object with these keys, and maybe others. One that ends
              in a question mark may be missing.
        path: the document's file.
        field: where in it ``found`` stands, with dots between keys.
        advice: what to do if it is not.

    Raises:
        DataError: naming the first field that is another.
    """
    if not _is(found, wanted):
        name = NAMES[type(wanted) if isinstance(wanted, dict | list) else wanted]
        raise _error(path, field, repr(found), name, advice)
    for key, value, part in _parts(found, wanted, path, field, advice):
        expect(value, part, path, key, advice)
    return found


def _parts(
    found: Any, wanted: Any, path: Path | str, field: str, advice: str
) -> Iterator[tuple[str, Any, Any]]:
    """Where each part of a list or an object stands, the part, and what is wanted of it."""
    if isinstance(wanted, list):
        yield from ((f"{field}[{index}]", value, wanted[0]) for index, value in enumerate(found))
    elif isinstance(wanted, dict) and wanted.keys() & {str, int}:
        ((kind, part),) = wanted.items()
        for key, value in found.items():
            if not _is_key(key, kind):
                raise _error(path, field, f"the key {key!r}", NAMES[kind], advice)
            yield _below(field, key), value, part
    elif isinstance(wanted, dict):
        for key, part in wanted.items():
            name = key.removesuffix("?")
            if name in found:
                yield _below(field, name), found[name], part
            elif name == key:
                raise _error(path, _below(field, name), "nothing", "it", advice)


def _error(path: Path | str, field: str, found: str, expected: str, advice: str) -> DataError:
    then = f"; {advice}" if advice else ""
    return DataError(path, field or "document", found[:SHOWN], expected + then)


def _is(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict | list):
        return isinstance(value, type(wanted))
    if wanted is float:
        try:
            return type(value) in (int, float) and math.isfinite(value)
        except OverflowError:  # an integer of hundreds of digits
            return False
    return type(value) is wanted  # true is no number


def _is_key(key: str, kind: type) -> bool:
    """Whether a key is a whole number, or text that can be written (no half a character)."""
    if kind is int:
        return key.isascii() and key.isdecimal()
    return not any("\ud800" <= one <= "\udfff" for one in key)


def _below(field: str, key: str) -> str:
    return f"{field}.{key}" if field else key
