"""The ways to rank that :mod:`tests.bench.quality` measures against each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from lib.cache.reader import Cache
from lib.compiler.cpu.features import COPY_FEATURES, OFF_LAYOUT_FEATURES
from lib.models.attention import ConfigurationCrossAttention
from lib.models.members import Linears, Norms
from lib.models.plus import CostBatch, TGraphPlus
from lib.models.scatter import added_at
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
            network.inputs.copies.factor[_in_group(group, COPY_FEATURES)] = 0
            network.inputs.off_layout.factor[_in_group(group, OFF_LAYOUT_FEATURES)] = 0
        return network

    return change


def _in_group(group: str, names: tuple[str, ...]) -> torch.Tensor:
    """Which features belong to a group, booleans."""
    return torch.tensor([name.startswith(f"{group}.") for name in names])


class CrossAttended(nn.Module):
    """A network whose scores are weighed by those of other configurations.

    Of each configuration, what its copies cost times the states where they happen is summed; the
    sums are weighed against those of the batch's other configurations (TGraph paper, equation 6);
    and what is read of both is the logarithm of a factor on the score. It starts at one.

    Args:
        network: without it.
    """

    def __init__(self, network: TGraphPlus):
        super().__init__()
        self.network = network
        members, channels, _ = network.context.node.weight.shape
        self.norm = Norms(members, channels)
        self.attention = ConfigurationCrossAttention(1.0)
        self.factor = Linears(members, 2 * channels, 1)
        nn.init.zeros_(self.factor.weight)
        nn.init.zeros_(self.factor.bias)

    @property
    def inputs(self) -> nn.Module:
        """Standardization of what it reads."""
        return self.network.inputs

    def forward(self, batch: CostBatch) -> Tensor:
        """See :meth:`lib.models.plus.TGraphPlus.forward`."""
        batch = self.network.inputs(batch)
        around = batch.context
        costs, states = self.network.costs_around(batch)
        scores = self.network.summed(costs, around.copy_places, batch)
        scores = scores + self.network.of_others(batch)
        where = costs.T[..., None] * states[around.copies[:, 1]]  # (p, members, channels)
        summed = where.new_zeros(batch.configurations, *where.shape[1:])
        normed = self.norm(added_at(summed, where, around.copy_places)).transpose(0, 1)
        weighed = batch.configurations * self.attention(normed)
        factor = self.factor(torch.cat([normed, weighed], dim=2)).squeeze(2)
        scores = scores * factor.clamp(max=2.0).exp()
        return scores if self.training else scores.mean(dim=0)


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
    f"{PLUS}, attention across configurations": Variant(PLUS, change=CrossAttended, also="all"),
    **{
        f"{PLUS}{UNION_NAMES['own']}, {name}": Variant(PLUS, given, change)
        for name, given, change in (
            ("without caches", {}, without("cache")),
            ("without walks", {}, without("reading", "writing")),
            ("without chains", {}, without("chain")),
            ("logistic", {"loss": "logistic"}, without()),
            ("no dropout", {"dropout": 0.0}, without()),
            ("pruned graph", {"hops": 1}, without()),
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
