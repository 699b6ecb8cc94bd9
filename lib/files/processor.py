"""This machine's processor, and what it can do: measurements of two of them are never mixed."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path

from lib.files.errors import UserError

CPUINFO = Path("/proc/cpuinfo")
# Sets of instructions, narrow to wide, and what Linux calls what a processor must have for them.
INSTRUCTIONS = {"sse2": "sse2", "avx2": "avx2", "avx512": "avx512vl"}
# What LLVM calls a processor that has one of them, whoever has made it.
MCPU = {"sse2": "x86-64", "avx2": "core-avx2", "avx512": "skylake-avx512"}
LANES = 16  # numbers of the widest vector
# Pages of 2 MB where Linux gives them to who asks: in small ones, whose places are left to chance,
# the weights of a large network get in each other's way in the caches.
LARGE_PAGES = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"}


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


def check_has(flag: str, name: str) -> None:
    """Raise a :class:`UserError` for a set of instructions that this processor lacks."""
    had = instruction_sets()
    if name in INSTRUCTIONS and name not in had:
        raise UserError(f"{flag} {name}: this processor has no {name}; it has {', '.join(had)}")


def cores_of(flag: str, text: str) -> list[str]:
    """The cores that a flag names, with commas between them.

    Raises:
        UserError: this process may not run on one of them.
    """
    names, before = text.split(","), os.sched_getaffinity(0)
    try:
        for core in names:  # tried, since another collector's watcher may have moved this process
            os.sched_setaffinity(0, {int(core)})
    except (ValueError, OSError):
        here = ", ".join(map(str, sorted(before)))
        reason = f"{core!r} is not a core of this machine; choose from {here}"
        raise UserError(f"{flag} {text}: {reason}") from None
    finally:
        os.sched_setaffinity(0, before)
    return names
