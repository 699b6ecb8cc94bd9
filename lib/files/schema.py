"""What a JSON document must look like before it is believed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lib.errors import DataError

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
            * ``{str: wanted}``: an object of such, whatever their keys;
            * ``{"key": wanted, ...}``: an object with these keys, and maybe others. One that ends
              in a question mark may be missing or null.
        path: the document's file.
        field: where in it ``found`` stands, with dots between keys.
        advice: what to do if it is not.

    Raises:
        DataError: naming the first field that is another.
    """
    if not _is(found, wanted):
        name = NAMES[type(wanted) if isinstance(wanted, dict | list) else wanted]
        expected = name + (f"; {advice}" if advice else "")
        raise DataError(path, field or "document", repr(found)[:SHOWN], expected)
    if isinstance(wanted, list):
        for index, value in enumerate(found):
            expect(value, wanted[0], path, f"{field}[{index}]", advice)
    elif isinstance(wanted, Mapping) and str in wanted:
        for key, value in found.items():
            expect(value, wanted[str], path, _below(field, key), advice)
    elif isinstance(wanted, Mapping):
        for key, part in wanted.items():
            name = key.removesuffix("?")
            if name != key and found.get(name) is None:
                continue
            if name not in found:
                expected = "it" + (f"; {advice}" if advice else "")
                raise DataError(path, _below(field, name), "nothing", expected)
            expect(found[name], part, path, _below(field, name), advice)
    return found


def _is(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict | list):
        return isinstance(value, type(wanted))
    if wanted is float:
        try:
            return type(value) in (int, float) and math.isfinite(value)
        except OverflowError:  # an integer of hundreds of digits
            return False
    return type(value) is wanted  # true is no number


def _below(field: str, key: str) -> str:
    return f"{field}.{key}" if field else key
