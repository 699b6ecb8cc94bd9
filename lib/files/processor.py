"""Which processor this is, and what it can do: measurements of two of them are never mixed."""

from __future__ import annotations

import platform
import re
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
# Sets of instructions, narrow to wide, and what Linux calls what a processor must have for them.
INSTRUCTIONS = {"sse2": "sse2", "avx2": "avx2", "avx512": "avx512vl"}
# What LLVM calls a processor that has one of them, whoever has made it.
MCPU = {"sse2": "x86-64", "avx2": "core-avx2", "avx512": "skylake-avx512"}


def processor() -> str:
    """The processor's name with its family and model, since one name covers several."""
    text = CPUINFO.read_text()
    fields = dict(re.findall(r"^(model name|cpu family|model)\s*: (.*)$", text, re.MULTILINE))
    complete = {"model name", "cpu family", "model"} <= fields.keys()
    name = "{model name} (family {cpu family}, model {model})"
    return name.format(**fields) if complete else platform.processor()


def instruction_sets() -> list[str]:
    """Those of :data:`INSTRUCTIONS` that this processor has; all, where the system does not say."""
    flags = CPUINFO.read_text().split() if CPUINFO.exists() else []
    return [name for name, flag in INSTRUCTIONS.items() if not flags or flag in flags]
