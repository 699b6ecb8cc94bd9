"""Networks that nobody wrote: drawn from grammars of blocks, a family a grammar.

They are random but plausible, and their number is not limited. A program's number is its seed:
it is the same network wherever it is built.
"""

from lib.collect.xla.zoo.drawn.drawing import drawn_program
from lib.collect.xla.zoo.program import ZooProgram

COUNT = 24  # of a family


def drawn_programs(source: str) -> tuple[ZooProgram, ...]:
    """All programs of a source, the first of every family, then the second of each, and so on.

    Args:
        source: ``xla`` or ``nlp``.
    """
    from lib.collect.xla.zoo.drawn import language, vision  # late: they want flax

    grammars = {"xla": vision.GRAMMARS, "nlp": language.GRAMMARS}[source]
    return tuple(
        drawn_program(family, source, grammar, number)
        for number in range(COUNT)
        for family, grammar in grammars.items()
    )
