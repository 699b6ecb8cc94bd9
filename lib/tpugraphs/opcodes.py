"""The 120 opcode ids of the official encoding (FORMAT.md, section 3)."""

from __future__ import annotations

from types import MappingProxyType

UNKNOWN = 0  # the id of every name that is not in the table

# In the order of their ids, from 1. `trace` (97) and `tuple-select` (101) are retired in XLA.
_TABLE = """
    abs add add-dependency after-all all-reduce all-to-all atan2 batch-norm-grad
    batch-norm-inference batch-norm-training bitcast bitcast-convert broadcast call ceil cholesky
    clamp collective-permute count-leading-zeros compare complex concatenate conditional constant
    convert convolution copy copy-done copy-start cosine custom-call divide domain dot dynamic-slice
    dynamic-update-slice exponential exponential-minus-one fft floor fusion gather
    get-dimension-size set-dimension-size get-tuple-element imag infeed iota is-finite log
    log-plus-one and not or xor map maximum minimum multiply negate outfeed pad parameter
    partition-id popcnt power real recv recv-done reduce reduce-precision reduce-window remainder
    replica-id reshape reverse rng rng-get-and-update-state rng-bit-generator round-nearest-afz
    rsqrt scatter select select-and-scatter send send-done shift-left shift-right-arithmetic
    shift-right-logical sign sine slice sort sqrt subtract tanh trace transpose triangular-solve
    tuple tuple-select while cbrt all-gather collective-permute-start collective-permute-done
    logistic dynamic-reshape all-reduce-start all-reduce-done reduce-scatter all-gather-start
    all-gather-done opt-barrier async-start async-update async-done round-nearest-even
    stochastic-convert tan
"""
NAMES: tuple[str, ...] = tuple(_TABLE.split())

ID_OF_NAME = MappingProxyType({name: number for number, name in enumerate(NAMES, start=1)})
NAME_OF_ID = MappingProxyType({number: name for name, number in ID_OF_NAME.items()})
MAX_ID = len(NAMES)  # 120

CONVOLUTION = ID_OF_NAME["convolution"]
DOT = ID_OF_NAME["dot"]
RESHAPE = ID_OF_NAME["reshape"]


def opcode_id(name: str) -> int:
    """The id, 1..120, of an XLA opcode name; 0 for a name that is not in the table."""
    return ID_OF_NAME.get(name, UNKNOWN)


def opcode_name(number: int) -> str:
    """The name of an opcode's id; ``unknown`` for one that is not in the table."""
    return NAME_OF_ID.get(int(number), "unknown")
