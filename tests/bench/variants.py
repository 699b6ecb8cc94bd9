"""The ways to rank that :mod:`tests.bench.quality` measures against each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from lib.cache.reader import Cache
from lib.compiler.features import COPY_FEATURES, OFF_LAYOUT_FEATURES
from lib.ranking.baseline import moved_bytes
from lib.ranking.metrics import kendall_tau
from tests.bench.summed import boosting, ridge

Taus = dict[str, float]


@dataclass(frozen=True)
class Variant:
    """A way to rank: a model with its settings, or a function that needs no stage 2.

    Attributes:
        model: of ``lib.settings.MODELS``; "" if ``rank`` does it all.
        overrides: settings other than the bundled ones.
        change: what is done to the fresh network.
        rank: (cache, fold of each graph) -> tau of each graph.
        share: of each fold's training graphs that are learned from, drawn with the seed.
    """

    model: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)
    change: Callable[[nn.Module], None] | None = None
    rank: Callable[[Cache, dict[str, int]], Taus] | None = None
    share: float = 1.0


def by_baseline(cache: Cache, folds: dict[str, int]) -> Taus:
    """What needs no learning."""
    graphs = {name: cache.graph(name) for name in folds}
    return {name: kendall_tau(moved_bytes(g), g.runtime) for name, g in graphs.items()}


def without_locality(network: nn.Module) -> None:
    """Nothing of caches: their features are standardized to zero."""
    network.inputs.copies.factor[_in_group("cache", COPY_FEATURES["cpu"])] = 0


def without_chains(network: nn.Module) -> None:
    """Nothing of what is computed on the way."""
    network.inputs.copies.factor[_in_group("chain", COPY_FEATURES["cpu"])] = 0
    network.inputs.off_layout.factor[_in_group("chain", OFF_LAYOUT_FEATURES["cpu"])] = 0


def _in_group(group: str, names: tuple[str, ...]) -> torch.Tensor:
    """Which features belong to a group, booleans."""
    return torch.tensor([name.startswith(f"{group}.") for name in names])


SHARES = (0.125, 0.25, 0.5, 0.75)  # of the learning curve, and all
VARIANTS: dict[str, Variant] = {
    "moved bytes, no learning": Variant(rank=by_baseline),
    "ridge on summed features": Variant(rank=ridge),
    "boosting on summed features": Variant(rank=boosting),
    "tgraph": Variant("tgraph"),
    "tgraph, 60 epochs": Variant("tgraph", {"epochs": 60}),
    "tgraph, 110 epochs": Variant("tgraph", {"epochs": 110}),
    "tgraph without channel attention": Variant("tgraph", {"channel_attention": False}),
    "tgraph without cross attention": Variant("tgraph", {"cross_attention": False}),
    "tgraph without edges": Variant("tgraph", {"edges": False}),
    "tgraph, summed loss": Variant("tgraph", {"loss_reduction": "sum"}),
    "gst": Variant("gst"),
    "tgraph-plus": Variant("tgraph-plus"),
    "tgraph-plus, layouts that spread": Variant("tgraph-plus", {"propagation": "spread"}),
    "tgraph-plus without caches": Variant("tgraph-plus", change=without_locality),
    "tgraph-plus without chains": Variant("tgraph-plus", change=without_chains),
    "tgraph-plus, one member": Variant("tgraph-plus", {"members": 1}),
    "tgraph-plus, 64 channels": Variant("tgraph-plus", {"channels": 64}),
    "tgraph-plus, hinge": Variant("tgraph-plus", {"loss": "hinge"}),
    "tgraph-plus, no dropout": Variant("tgraph-plus", {"dropout": 0.0}),
    "tgraph-plus, 60 epochs": Variant("tgraph-plus", {"epochs": 60}),
    "tgraph-plus, pruned graph": Variant("tgraph-plus", {"hops": 1}),
    **{
        f"tgraph-plus, {share:.1%} of the programs": Variant("tgraph-plus", share=share)
        for share in SHARES
    },
}
