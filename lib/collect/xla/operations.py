"""What XLA makes of a program, counted. Nothing here needs more than Python."""

from __future__ import annotations

import re
from collections import Counter

COLUMN = "operations"  # in a raw file's `about` and in programs.parquet
UNCOUNTED = ("parameter", "constant", "tuple", "get-tuple-element", "bitcast", "fusion", "call")
# `  ROOT %add.3 = f32[8,128]{1,0} add(...)`; a tuple of shapes has parentheses, and no rank.
INSTRUCTION = re.compile(
    r"^\s+(?:ROOT )?%?[\w.-]+ = (?:\(.*?\)|\w+\[([\d,<=?]*)\]\S*) ([a-z][\w-]*)\(", re.MULTILINE
)


def operations(text: str) -> dict[str, int]:
    """How often each operation occurs in a program, by opcode and rank of the result.

    Args:
        text: of the optimized HLO module. Operations inside fusions count; what only carries data
            does not.
    """
    counts = Counter(
        f"{opcode} {len(shape.split(',')) if shape else 0}"
        for shape, opcode in INSTRUCTION.findall(text)
        if opcode not in UNCOUNTED
    )
    return dict(sorted(counts.items()))
