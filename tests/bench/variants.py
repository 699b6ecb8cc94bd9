"""The ways to rank that :mod:`tests.bench.quality` measures against each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from lib.cache.reader import Cache
from lib.compiler.cpu.features import COPY_FEATURES, OFF_LAYOUT_FEATURES, REPEATED_FEATURES
from lib.ranking.baseline import moved_bytes
from lib.ranking.metrics import kendall_tau
from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS
from tests.bench.summed import boosting, ridge

FEATURES = (*COPY_FEATURES, *OFF_LAYOUT_FEATURES, *REPEATED_FEATURES)  # of effects
Taus = dict[str, float]  # of each graph


@dataclass(frozen=True)
class Variant:
    """A way to rank: a model with its settings, or a function that needs no stage 2.

    Attributes:
        model: of ``lib.settings.MODELS``; "" if ``rank`` does it all.
        overrides: settings other than the bundled ones.
        change: of the fresh network to the one that is trained.
        rank: (cache, fold of each graph) -> tau of each graph.
        share: of each fold's training graphs that are learned from, drawn with the seed.
        also: the collections that each is learned from: its ``own``, both of a ``source`` searched
            either way, both ``sources`` of a search, or ``all``.
    """

    model: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)
    change: Callable[[nn.Module], nn.Module] = lambda network: network
    rank: Callable[[Cache, dict[str, int]], Taus] | None = None
    share: float = 1.0
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


UNIONS = {"own": (1, 2), "source": (1,), "sources": (2,), "all": ()}  # parts of a name they share


def by_baseline(cache: Cache, folds: dict[str, int]) -> Taus:
    """What needs no learning."""
    graphs = {name: cache.graph(name) for name in folds}
    return {name: kendall_tau(moved_bytes(g), g.runtime) for name, g in graphs.items()}


def without(*groups: str) -> Callable[[nn.Module], nn.Module]:
    """A change of a network: nothing of some groups of features, which are standardized to zero."""

    def change(network: nn.Module) -> nn.Module:
        for group in groups:
            network.effects.standardize.factor[_in_group(group)] = 0
        return network

    return change


def _in_group(group: str) -> torch.Tensor:
    """Which features of effects belong to a group, booleans."""
    return torch.tensor([name.startswith(f"{group}.") for name in FEATURES])


SHARES = (0.125, 0.25, 0.5, 0.75)  # of the learning curves, and all
PLUS = "tgraph-plus"
UNION_NAMES = {
    "own": ", its collection alone",
    "source": ", both searches",
    "sources": ", both sources",
    "all": "",
}
VARIANTS: dict[str, Variant] = {
    "moved bytes, no learning": Variant(rank=by_baseline),
    "ridge on summed features": Variant(rank=ridge),
    "boosting on summed features": Variant(rank=boosting),
    "tgraph": Variant("tgraph"),
    "tgraph, physics": Variant("tgraph", {"physics": True}),
    **{
        f"tgraph, {epochs} epochs, dropout {dropout}": Variant(
            "tgraph", {"epochs": epochs, "dropout": dropout}
        )
        for epochs, dropout in ((10, 0.2), (30, 0.0), (30, 0.2))
    },
    "tgraph without channel attention": Variant("tgraph", {"channel_attention": False}),
    "tgraph without cross attention": Variant("tgraph", {"cross_attention": False}),
    "tgraph without edges": Variant("tgraph", {"edges": False}),
    "gst": Variant("gst"),
    **{f"{PLUS}{name}": Variant(PLUS, also=also) for also, name in UNION_NAMES.items()},
    **{
        f"{PLUS}{UNION_NAMES[also]}, four members": Variant(PLUS, {"members": 4}, also=also)
        for also in ("own", "all")
    },
    **{
        f"{PLUS}{UNION_NAMES['own']}, {name}": Variant(PLUS, given, change)
        for name, given, change in (
            ("without caches", {}, without("cache")),
            ("without walks", {}, without("reading", "writing")),
            ("without chains", {}, without("chain")),
            ("logistic", {"loss": "logistic"}, without()),
            ("no dropout", {"dropout": 0.0}, without()),
            ("whole graph", {"hops": "all"}, without()),
        )
    },
    **{
        f"{PLUS}{UNION_NAMES[also]}, {share:.1%} of the programs": Variant(
            PLUS, share=share, also=also
        )
        for also in ("own", "all")
        for share in SHARES
    },
}
