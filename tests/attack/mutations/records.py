"""Damage to JSON documents, and to files with one in each line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from tests.attack.mutations.values import TEXTS, Unsuitable, any_value, content, shown

DEEP = 100_000  # brackets in each other


def change(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Another value somewhere."""
    document = _read(path)
    where, holder, key = _place(document, rng)
    if holder is None:
        raise Unsuitable
    holder[key] = any_value(rng)
    _write(path, document)
    return f"{where} is {shown(holder[key])}"


def remove(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A key or an element less."""
    document = _read(path)
    where, holder, key = _place(document, rng)
    if holder is None:
        raise Unsuitable
    del holder[key]
    _write(path, document)
    return f"no {where}"


def rename_key(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A key of another name, or one more."""
    document = _read(path)
    where, holder, key = _place(document, rng)
    if not isinstance(holder, dict):
        raise Unsuitable
    new = rng.choice((*TEXTS, "graphs", "mean", "folds", "0", "99"))
    holder[new] = holder.pop(key) if rng.random() < 0.5 else holder[key]
    _write(path, document)
    return f"{where} is called {shown(new)}"


def whole(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Another document."""
    value = any_value(rng)
    _write(path, value)
    return shown(value)


def wrap(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """The document, or a part of it, within others."""
    document = _read(path)
    where, holder, key = _place(document, rng)
    if holder is None:
        _write(path, [document])
        return "in a list"
    holder[key] = rng.choice(
        ([holder[key]], {"a": holder[key]}, str(holder[key]), [holder[key]] * 3)
    )
    _write(path, document)
    return f"{where} within {type(holder[key]).__name__}"


def deepen(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Brackets within brackets."""
    text = content(path).decode(errors="replace")
    nest = rng.choice(("[" * DEEP + "]" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP, "[" * DEEP))
    at = text.find(":") + 1 if rng.random() < 0.5 else 0
    path.write_text(text[:at] + nest + ("," + text[at:] if at else ""))
    return f"{DEEP} brackets at {at}"


def encode(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """The same text in another encoding, or text that is none."""
    text = content(path).decode(errors="replace")
    name = rng.choice(("utf-16", "utf-32", "utf-8-sig", "cp037"))
    path.write_bytes(text.encode(name, errors="replace"))
    return name


MUTATIONS = (
    change,
    change,
    change,
    change,
    remove,
    remove,
    rename_key,
    whole,
    wrap,
    deepen,
    encode,
)


def change_line(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Another value somewhere in a line."""
    lines = content(path).decode(errors="replace").split("\n")
    number = rng.randrange(max(1, len(lines) - 1))
    try:
        document = json.loads(lines[number])
    except (ValueError, RecursionError):
        raise Unsuitable from None
    where, holder, key = _place(document, rng)
    value = rng.choice((any_value(rng), rng.choice(LAYOUTS)))
    if holder is None:
        document = value
    else:
        holder[key] = value
    lines[number] = json.dumps(document)
    path.write_text("\n".join(lines), errors="surrogatepass")
    return f"line {number}: {where} is {shown(value)}"


def edit_lines(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A line more, or one in another form."""
    text = content(path).decode(errors="replace")
    deep = "[" * DEEP + "]" * DEEP
    site = '{"dot.3": {"output": "{1,0"}}'
    odd = ("", "{", "null", "[]", '{"x": 1}', site, deep, f'{{"dot.3": {deep}}}', "\x00", "{}{}")
    more = rng.choice((*odd, '{"3": {}}', '{"dot.3": {}, "dot.3": []}', '{"dot.3": true}'))
    path.write_text(rng.choice((text + more + "\n", more + "\n" + text, more, more + text)))
    return shown(more)


LAYOUTS = ("{1,0", "1,0}", "{}", "{0,0}", "{1,0}", "{6}", "{-1}", "{²}", [0], [True], [1.0], [[]])
IN_LINES = (change_line, change_line, edit_lines, edit_lines, deepen, encode)


def _read(path: Path) -> Any:
    try:
        return json.loads(content(path))
    except (ValueError, RecursionError):
        raise Unsuitable from None


def _write(path: Path, document: Any) -> None:
    path.write_text(json.dumps(document, indent=2))


def _place(document: Any, rng: Random) -> tuple[str, Any, Any]:
    """A place in a document: in words, what holds it, and its key there; ``None`` for all."""
    where, holder, key = "all", None, None
    while isinstance(document, dict | list) and document:
        holder = document
        key = (
            rng.choice(list(document))
            if isinstance(document, dict)
            else rng.randrange(len(document))
        )
        where, document = f"{where}.{shown(key)}" if where != "all" else shown(key), holder[key]
        if rng.random() < 0.3:
            break
    return where, holder, key
