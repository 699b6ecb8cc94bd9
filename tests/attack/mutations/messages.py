"""Damage to protobufs that stay messages: any field, found by reflection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from lib.tpugraphs.schema_pb2 import HloModuleProto, ModuleTuningData, TuningData
from tests.attack.mutations.values import TEXTS, Unsuitable, content, shown

WHOLE = (0, 1, -1, 2, 5, 6, 7, 140, 2**31 - 1, -(2**31), 2**62, 2**63 - 1, -(2**63))
OPCODES = ("dot", "reshape", "convolution", "add", "parameter", "custom-call", "tuple", "")
LAID, OTHER = "layout", ("npz", "tile")


def change_field(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Another value of a field."""
    message = _read(path)
    holder, field = _field(message, rng)
    if field.message_type:
        raise Unsuitable
    value: Any = rng.choice(WHOLE)
    if field.type == FieldDescriptor.TYPE_STRING:
        value = rng.choice((*OPCODES, *TEXTS[:-5]))
    try:
        if field.is_repeated:
            values = getattr(holder, field.name)
            values[rng.randrange(len(values))] = value
        else:
            setattr(holder, field.name, value)
    except (ValueError, UnicodeEncodeError):
        raise Unsuitable from None
    _write(path, message)
    return f"{holder.DESCRIPTOR.name}.{field.name} is {shown(value)}"


def clear_field(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """A field, or an element of one, less."""
    message = _read(path)
    holder, field = _field(message, rng)
    if field.is_repeated and rng.random() < 0.6:
        values = getattr(holder, field.name)
        del values[rng.randrange(len(values))]
    else:
        holder.ClearField(field.name)
    _write(path, message)
    return f"{holder.DESCRIPTOR.name}.{field.name}"


def repeat_field(path: Path, rng: Random, others: Sequence[Path]) -> str:
    """Elements of a field again, or in another order."""
    message = _read(path)
    holder, field = _field(message, rng)
    if not field.is_repeated:
        raise Unsuitable
    values = getattr(holder, field.name)
    times = rng.choice((1, 2, 30))
    copies = list(values) * times
    if times == 1:
        rng.shuffle(copies)
        del values[:]
    values.extend(copies)
    _write(path, message)
    return f"{holder.DESCRIPTOR.name}.{field.name} {times} times"


MUTATIONS = (change_field, change_field, change_field, clear_field, repeat_field)


def _read(path: Path) -> Message:
    data = content(path)
    kind = HloModuleProto if path.stem == "module" else ModuleTuningData
    if "tile" in path.parts:
        kind = TuningData
    try:
        return kind.FromString(data)
    except DecodeError:
        raise Unsuitable from None


def _write(path: Path, message: Message) -> None:
    path.write_bytes(message.SerializeToString())


def _field(message: Message, rng: Random) -> tuple[Message, FieldDescriptor]:
    """A field that is set, of any message within: all kinds of fields as likely."""
    found: dict[str, list[tuple[Message, FieldDescriptor]]] = {}
    for holder, field in _fields(message):
        found.setdefault(field.full_name, []).append((holder, field))
    if not found:
        raise Unsuitable
    return rng.choice(found[rng.choice(sorted(found))])


def _fields(message: Message) -> Iterator[tuple[Message, FieldDescriptor]]:
    for field, value in message.ListFields():
        yield message, field
        if field.message_type:
            for one in value if field.is_repeated else [value]:
                yield from _fields(one)
