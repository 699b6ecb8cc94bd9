"""What configurations make a compiler do, by the hardware that it compiles for."""

from __future__ import annotations

from lib.cache.compress import Resolve


def resolver(hardware: str) -> Resolve | None:
    """What works it out of a whole graph; none on TPUs, where it is looked up as it is read
    (:mod:`lib.models.prices.inputs`), for there nodes do not meddle with one another."""
    if hardware != "cpu":
        return None
    from lib.compiler.cpu.resolved import effects_of  # what it imports takes 40 MB

    return effects_of
