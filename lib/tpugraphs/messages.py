"""Protobuf files of layouts, tiles or HLO modules, bare or as dumped, known by their content."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from google.protobuf.message import DecodeError, Message

from lib.files.errors import DataError
from lib.files.regular import read_regular
from lib.tpugraphs.schema_pb2 import HloModuleProto, HloProto, ModuleTuningData, TuningData

MESSAGES = {"layout": ModuleTuningData, "tile": TuningData, "hlo": HloModuleProto}
M = TypeVar("M", bound=Message)

OUT_OF_MEMORY = "Arena alloc failed"
MAX_BYTES = 2**31 - 1  # of a message, as in every protobuf library
DUMPED = "a protobuf: XLA_FLAGS='--xla_dump_to=FOLDER --xla_dump_hlo_as_proto' dumps it"
LOWERED = (
    "an HLO module, which JAX writes by "
    "jax.jit(f).lower(...).compiler_ir('hlo').as_serialized_hlo_module_proto()"
)
OTHER_FILES = {  # what a file begins with that is no protobuf: what it is, and what to do
    b"HloModule": ("HLO text", DUMPED),
    b"\x1f\x8b": ("a gzip archive", "a protobuf; gunzip unpacks it"),
    b"ML\xefR": ("StableHLO bytecode", LOWERED),
    b"module": ("StableHLO text", LOWERED),
    b"#loc": ("StableHLO text", LOWERED),
}


def detect_kind(path: Path | str) -> str:
    """Return whether a file is of kind ``layout``, ``tile`` or ``hlo``, by its content.

    Protobuf parses almost anything, so a kind counts only if its modules have instructions and
    every instruction has an opcode. An HloProto has its module where ModuleTuningData has it, but
    neither a fingerprint nor configurable nodes.

    Raises:
        DataError: the content is of none of these kinds.
    """
    data = read_regular(path, MAX_BYTES)
    for kind in MESSAGES:
        try:
            modules = _modules(kind, _message(kind, data))
        except DecodeError:
            continue
        parts = [
            [i for comp in module.computations for i in comp.instructions] for module in modules
        ]
        if parts and all(part and all(inst.opcode for inst in part) for part in parts):
            return kind
    actual = f"{len(data)} bytes with no HLO instructions"
    expected = " or ".join(m.__name__ for m in MESSAGES.values())
    texts = (text for start, text in OTHER_FILES.items() if data.startswith(start))
    raise DataError(path, "message", *next(texts, (actual, expected)))


def from_bytes(message: type[M], data: bytes) -> M:
    """Return a message; raises DecodeError, or MemoryError, which the library hides in that."""
    try:
        return message.FromString(data)
    except DecodeError as error:
        if OUT_OF_MEMORY in str(error):
            raise MemoryError from None
        raise


def read_module(path: Path | str, kind: str) -> HloModuleProto:
    """The module of a file of kind ``layout`` or ``hlo``; raises as
    :func:`read_message`."""
    return _modules(kind, read_message(path, kind))[0]


def read_message(path: Path | str, kind: str) -> Any:
    """The message of a file; of kind ``hlo`` the module, also if it is wrapped; raises DataError if
    the bytes are no such message."""
    data = read_regular(path, MAX_BYTES)
    name = MESSAGES[kind].__name__
    if not data:  # which protobuf would read as a message with every field unset
        raise DataError(path, name, "no bytes", "a message")
    try:
        return _message(kind, data)
    except DecodeError as error:
        problem = " ".join(str(error).split())[:200]
        raise DataError(path, name, problem, "intact bytes") from None


def _message(kind: str, data: bytes) -> Any:
    if kind == "hlo":
        with suppress(DecodeError):
            module = from_bytes(HloProto, data).hlo_module
            if module.computations:
                return module
    return from_bytes(MESSAGES[kind], data)


def _modules(kind: str, message: Any) -> list[HloModuleProto]:
    """The modules that must be there for a message to be of a kind."""
    if kind == "hlo":
        return [message]
    if kind == "layout":
        tuned = message.fingerprint or message.config_index_to_node
        return [message.module] if tuned and message.HasField("module") else []
    return [tuning.module for tuning in message.modules if tuning.HasField("module")]
