"""The programs that are measured: recognisable networks, small enough to run in 1-15 ms."""

from __future__ import annotations

from lib.collect.xla.zoo.program import ZooProgram
from lib.files.errors import UserError


def all_programs() -> tuple[ZooProgram, ...]:
    """Every program, the two sources interleaved so that a partial collection has both."""
    from lib.collect.xla.zoo import nlp, xla

    longest = max(len(xla.PROGRAMS), len(nlp.PROGRAMS))
    rows = [source[k : k + 1] for k in range(longest) for source in (xla.PROGRAMS, nlp.PROGRAMS)]
    return tuple(program for row in rows for program in row)


def program_named(name: str) -> ZooProgram:
    """The program called ``name``; raises :class:`UserError` for an unknown one."""
    for program in all_programs():
        if program.name == name:
            return program
    raise UserError(f"program {name!r}: unknown; `python -m lib.collect.xla --list` shows them all")
