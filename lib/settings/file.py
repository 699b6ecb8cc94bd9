"""Settings from a file, such as the one that ``make tune`` writes: TOML, a line a setting.

    collection = "layout-xla-default"    # not needed; if they are there, they must be those of
    model = "tgraph-plus"                # the run
    learning_rate = 0.003

Names are those of the flags, with ``_`` or ``-``. Only the standard library is needed, for Make
asks before there is an environment.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lib.files.artifacts import atomic_file
from lib.files.errors import DataError
from lib.files.regular import read_regular
from lib.files.schema import NAMES
from lib.settings.base import Settings, wanted_range

MOST_BYTES = 1 << 20
EXPECTED = "a TOML file of settings"
SHOWN = 60  # characters of a value in a message
OF_THE_RUN = {"collection": "COLLECTION", "model": "MODEL"}  # and their variables of make
VARIABLES = ("hops", "also", "experiment")  # settings that have a variable of make


def read_settings(path: Path, collection: str, kind: type[Settings]) -> dict[str, Any]:
    """The values of a settings file, by field name.

    Args:
        path: the file.
        collection, kind: that the run is of, and the settings of its model.

    Raises:
        DataError: it is no such file, it is another collection's or model's, or a value is none
            that its setting can have. Whether values go with one another is not looked at.
    """
    fields = {
        setting.name: setting for setting in dataclasses.fields(kind) if "help" in setting.metadata
    }
    run = {"collection": collection, "model": kind.model}
    values: dict[str, Any] = {}
    for written, value in _parsed(path).items():
        name = written.replace("-", "_")
        if name in values:
            raise DataError(path, written, "it twice", "each setting once")
        if name in run:
            if value != run[name]:
                hint = f", or {OF_THE_RUN[name]}={value} of make" if isinstance(value, str) else ""
                raise DataError(path, name, _shown(value), f"{run[name]!r}, the run's{hint}")
        elif name not in fields:
            raise _unknown(path, written, [*run, *fields], kind)
        elif name in (*kind.cache_depends_on, *kind.others_depend_on, "experiment"):
            flag = f"--{name.replace('_', '-')}"
            flag += f" ({name.upper()} of make)" if name in VARIABLES else " (in ARGS of make)"
            raise DataError(path, written, "what paths of files go by", f"{flag} to say it")
        values[name] = value if name in run else _value(path, written, value, fields[name])
    return {name: value for name, value in values.items() if name not in run}


def write_settings(path: Path, values: Mapping[str, Any], comments: Sequence[str] = ()) -> None:
    """Write a file that :func:`read_settings` takes: values by field name, below comments."""
    lines = [f"# {line}" for line in comments]
    lines += [f"{name} = {_written(value)}" for name, value in values.items()]
    with atomic_file(path) as temporary:
        temporary.write_text("\n".join(lines) + "\n", "utf-8")


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_regular(path, MOST_BYTES).decode())
    except DataError as error:
        raise DataError(path, "TOML", error.actual, EXPECTED) from None
    except RecursionError:
        raise DataError(path, "TOML", "values too deep in one another", EXPECTED) from None
    except ValueError as error:
        raise DataError(path, "TOML", error, EXPECTED) from None


def _unknown(path: Path, written: str, names: Sequence[str], kind: type[Settings]) -> DataError:
    near = difflib.get_close_matches(written.replace("-", "_"), names, n=1)
    hint = f", such as {near[0]}" if near else f"; 02_train.py --model {kind.model} --help has them"
    return DataError(path, _shown(written), "no such setting", f"one of {kind.model}{hint}")


def _value(path: Path, written: str, value: object, setting: dataclasses.Field) -> Any:
    """A value as its setting has it; a whole number may stand for one with a point."""
    words = setting.metadata.get("words", ())
    kind = int if words else type(setting.default)
    if isinstance(value, str) and value in words:
        return value
    if kind is float and type(value) is int and abs(value) <= 2**53:
        value = float(value)
    if type(value) is not kind:
        raise DataError(path, written, _shown(value), " or ".join((NAMES[kind], *words)))
    if expected := wanted_range(setting, value):
        raise DataError(path, written, _shown(value), expected)
    return value


def _shown(value: object) -> str:
    return repr(value)[:SHOWN]


def _written(value: object) -> str:
    """A value as TOML has it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return str(value).lower() if isinstance(value, bool) else repr(value)
