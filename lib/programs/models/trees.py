"""A sum of binary decision trees, as tensors: evaluated on any device, saved like any weights."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from lib import native

TOGETHER = 64  # trees that rows are sent through at a time


class Trees(nn.Module):
    """Complete binary trees of one depth; a row goes right where its feature is not below.

    A tree that is less deep somewhere has nodes there that send every row the same way.

    Args:
        count: trees.
        depth: decisions on a path.
    """

    feature: Tensor
    threshold: Tensor
    value: Tensor
    base: Tensor

    def __init__(self, count: int, depth: int):
        super().__init__()
        self.depth = depth
        inner, leaves = 2**depth - 1, 2**depth
        self.register_buffer("feature", torch.zeros((count, inner), dtype=torch.int32))
        self.register_buffer("threshold", torch.zeros((count, inner)))
        self.register_buffer("value", torch.zeros((count, leaves)))
        self.register_buffer("base", torch.zeros(()))

    def take(self, other: Trees, place: int, share: float) -> None:
        """Take over trees of another sum from a place on, as a share of this one."""
        span = slice(place, place + len(other.feature))
        self.feature[span], self.threshold[span] = other.feature, other.threshold
        self.value[span] = share * other.value
        self.base += share * other.base

    def forward(self, rows: Tensor) -> Tensor:
        """(n, features) float32 to (n,), the base and a leaf of each tree added up.

        By the compiled loops of ``lib.native`` on a CPU; they read each row as it lies.
        """
        if native.takes(rows):
            return self.base + torch.ops.tgraph.trees_forward(
                rows.contiguous(), self._features(rows), self.threshold, self.value
            )
        total = self.base.expand(len(rows)).clone()
        feature = self._features(rows).long()
        for start in range(0, len(feature), TOGETHER):
            block = slice(start, start + TOGETHER)
            total += self._values(rows, feature[block], self.threshold[block], self.value[block])
        return total

    def _features(self, rows: Tensor) -> Tensor:
        """(trees, decisions) int32; none beyond what rows have, whatever a file says."""
        return self.feature.clamp(0, rows.shape[1] - 1)

    def _values(self, rows: Tensor, feature: Tensor, threshold: Tensor, value: Tensor) -> Tensor:
        """(n,) the leaves' values of some trees, added up."""
        count, inner = feature.shape
        first = torch.arange(count, device=rows.device) * inner  # of each tree's nodes
        place = torch.zeros((len(rows), count), dtype=torch.int64, device=rows.device)
        flat_feature, flat_threshold = feature.reshape(-1), threshold.reshape(-1)
        for _ in range(self.depth):
            node = first + place  # (n, count)
            right = rows.gather(1, flat_feature[node]) >= flat_threshold[node]
            place = 2 * place + 1 + right
        leaf = place - inner + torch.arange(count, device=rows.device) * (inner + 1)
        return value.reshape(-1)[leaf].sum(dim=1)
