"""The ways to rank that :mod:`tests.bench.quality` measures against each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lib.cache.reader import Cache
from lib.ranking.baseline import moved_bytes
from lib.ranking.metrics import kendall_tau
from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS
from tests.bench.summed import boosting, ridge

Taus = dict[str, float]  # of each graph


@dataclass(frozen=True)
class Variant:
    """A way to rank: a model with its settings, or a function that needs no stage 2.

    Attributes:
        model: of ``lib.settings.MODELS``; "" if ``rank`` does it all.
        overrides: settings other than the bundled ones.
        rank: (cache, fold of each graph) -> tau of each graph.
        also: the collections that each is learned from: its ``own``, both of a ``source`` searched
            either way, or ``all``.
    """

    model: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)
    rank: Callable[[Cache, dict[str, int]], Taus] | None = None
    also: str = "own"

    def union(self, collection: str) -> tuple[str, ...]:
        """The collections that one is learned from, itself among them."""
        parts = UNIONS[self.also]
        own = [part for place, part in enumerate(collection.split("-")) if place in parts]
        return tuple(
            one
            for one in LAYOUT_COLLECTIONS
            if own == [part for place, part in enumerate(one.split("-")) if place in parts]
        )


UNIONS = {"own": (1, 2), "source": (1,), "all": ()}  # parts of a name they share


def by_baseline(cache: Cache, folds: dict[str, int]) -> Taus:
    """What needs no learning."""
    graphs = {name: cache.graph(name) for name in folds}
    return {name: kendall_tau(moved_bytes(g), g.runtime) for name, g in graphs.items()}


PLUS = "tgraph-plus"
UNION_NAMES = {
    "own": ", its collection alone",
    "source": ", both searches",
    "all": "",
}
VARIANTS: dict[str, Variant] = {
    "moved bytes, no learning": Variant(rank=by_baseline),
    "ridge on summed features": Variant(rank=ridge),
    "boosting on summed features": Variant(rank=boosting),
    "tgraph": Variant("tgraph"),
    "tgraph, physics": Variant("tgraph", {"physics": True}),
    **{  # the paper's table 3
        f"tgraph without {what}": Variant("tgraph", {what.replace(" ", "_"): False})
        for what in ("channel attention", "cross attention", "edges")
    },
    **{
        f"tgraph, {epochs} epochs, dropout {dropout}": Variant(
            "tgraph", {"epochs": epochs, "dropout": dropout}
        )
        for epochs, dropout in ((10, 0.2), (30, 0.0), (30, 0.2))
    },
    **{f"{PLUS}{name}": Variant(PLUS, also=also) for also, name in UNION_NAMES.items()},
    f"{PLUS}, four members": Variant(PLUS, {"members": 4}, also="all"),
}
