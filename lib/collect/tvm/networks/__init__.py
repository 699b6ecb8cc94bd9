"""The networks whose tensor programs are measured, written in plain PyTorch.

They are as they stand at inference: batch normalizations are folded into the convolutions before
them, dropout is gone, and sequences begin as embeddings. Weights are random: only shapes matter.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatch

import torch

from lib.files.errors import UserError

# Whole networks that are kept for the test, with every task that they share with other networks.
TEST = (
    "resnet50.w32_s64.b1",
    "mobilenet_v2.w16_s96.b1",
    "bert.w128_t64.b1",
    "vit.w128_s96.b1",
    "unet.w8_s96.b2",
    "gpt.w256_t48.b1",
)
Built = tuple[torch.nn.Module, tuple[torch.Tensor, ...]]


@dataclass(frozen=True)
class Network:
    """A network of one size: its name (``family.size.batch``) and how to make it."""

    name: str
    build: Callable[[], Built]  # -> module, example inputs

    @property
    def family(self) -> str:
        """What stands before the first dot: ``bert`` of ``bert.w128_t64.b1``."""
        return self.name.split(".")[0]


def of_sizes(
    family: str, build: Callable[..., Built], unit: str, *sizes: tuple, extra: tuple = ()
) -> tuple[Network, ...]:
    """A network for each (width, tokens or size, batch, ...), which ``build`` is called with.

    Args:
        family, build: what they are called, and what makes one.
        unit: a letter for what is beside the width, ``t`` for tokens or ``s`` for the size.
        sizes: of each.
        extra: what ``build`` is called with after these.
    """
    return tuple(
        Network(f"{family}.w{w}_{unit}{n}.b{b}", lambda a=(w, n, b, *more, *extra): build(*a))
        for w, n, b, *more in sizes
    )


def all_networks() -> tuple[Network, ...]:
    """Every network; families take turns, so that a part of them is a mixture."""
    from lib.collect.tvm.networks import language, mixing, operators, vision, vision_small

    modules = (vision, language, vision_small, mixing, operators)
    turns: dict[str, int] = {}
    rows = []
    for network in (n for m in modules for n in m.NETWORKS):
        turns[network.family] = turns.get(network.family, 0) + 1
        rows.append((turns[network.family], network))
    return tuple(network for _, network in sorted(rows, key=lambda row: row[0]))


def chosen_networks(patterns: str) -> list[Network]:
    """The networks whose names match any of the comma-separated shell ``patterns``.

    Raises:
        UserError: none does.
    """
    globs = patterns.split(",")
    networks = [n for n in all_networks() if any(fnmatch(n.name, glob) for glob in globs)]
    if not networks:
        raise UserError(f"--networks {patterns!r}: no network matches; --list names them")
    return networks
