"""Layout propagation: what the layouts of a configuration come to in the program around them.

A configuration sets layouts of some tensors; wherever two layouts meet, elements are copied. How
far a layout propagates is the compiler's choice. On TPUs (and GPUs) it spreads to what lies around
(:mod:`lib.compiler.spreading`). XLA for CPUs holds everything else to the program's own order, so
that data return to it at once (:mod:`lib.compiler.returning`). Either is worked out for all
configurations of a batch at once, without compiling anything. The layout copies and off-layout
operations that come of it (:mod:`lib.compiler.effects`) become features in
:mod:`lib.compiler.features`.
"""

from __future__ import annotations

import numpy as np

from lib.compiler.effects import Effects
from lib.compiler.resolution import Resolution
from lib.compiler.returning import Returning
from lib.compiler.spreading import Spreading
from lib.compiler.tables import ProgramTables

PROPAGATIONS: dict[str, type[Resolution]] = {"spread": Spreading, "return": Returning}


def propagate(tables: ProgramTables, layouts: np.ndarray, propagation: str) -> Effects:
    """What the layouts of b configurations make a compiler do.

    Args:
        tables: of the program; orders, copies and operations that are new are added to them.
        layouts: (b, k, 3) int64, numbers of orders as ``tables.orders.numbers_of`` gives them:
            output, input and kernel of each of the program's configurable nodes.
        propagation: how far layouts propagate, a key of ``PROPAGATIONS``.
    """
    return PROPAGATIONS[propagation](tables, layouts).effects()
