"""The programs that are measured: recognisable networks, then drawn ones, that run in 1-15 ms."""

from __future__ import annotations

from itertools import zip_longest

from lib.collect.xla.zoo.program import ZooProgram
from lib.files.errors import UserError


def all_programs() -> tuple[ZooProgram, ...]:
    """Every program, the two sources interleaved so that a partial collection has both.

    Drawn programs are last, so that designed programs are measured first.
    """
    from lib.collect.xla.zoo import nlp, xla
    from lib.collect.xla.zoo.drawn import drawn_programs

    designed = zip_longest(xla.PROGRAMS, nlp.PROGRAMS)
    drawn = zip_longest(drawn_programs("xla"), drawn_programs("nlp"))
    return tuple(program for row in (*designed, *drawn) for program in row if program)


def program_named(name: str) -> ZooProgram:
    """The program called ``name``; raises :class:`UserError` for an unknown name."""
    for program in all_programs():
        if program.name == name:
            return program
    raise UserError(f"program {name!r}: unknown; `python -m lib.collect.xla --list` shows them all")
