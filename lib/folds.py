"""Which graph is in which fold: a pure function of names, K and seed."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from lib.errors import UserError


def assign_folds(names: Iterable[str], k: int, seed: int) -> dict[str, int]:
    """Deal whole graphs to ``k`` folds of sizes that differ by one at most.

    K-fold over the merged train and valid splits, never over configurations of one graph, whose
    runtimes are too alike (TGraph paper, section 2.4.3). The order of dealing is that of a hash
    of seed and name, so it depends neither on the order of files nor on a library's generator.

    Raises:
        UserError: if there are fewer graphs than folds.
    """
    unique = sorted(set(names), key=lambda n: hashlib.sha256(f"{seed}:{n}".encode()).digest())
    if not 2 <= k <= len(unique):
        raise UserError(f"folds_total={k}: must be from 2 to the number of graphs, {len(unique)}")
    return {name: position % k for position, name in enumerate(unique)}
