"""Effects of configurations on a compiler, by the hardware that it compiles for."""

from __future__ import annotations

from lib.cache.compress import Resolve


def resolver(hardware: str) -> Resolve | None:
    """Return the function that finds the effects in a whole graph; none on TPUs, where they are
    looked up when they are read (:mod:`lib.models.prices.inputs`): nodes are independent there."""
    if hardware != "cpu":
        return None
    from lib.compiler.cpu.resolved import effects_of  # what it imports takes 40 MB

    return effects_of
