"""One kernel of a tile collection as the stages after preprocessing see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from lib.tpugraphs.dataset import EVEN, UNLABELLED
from lib.tpugraphs.npz import TileKernel
from lib.tpugraphs.padding import pad_with_minus_one


@dataclass(frozen=True, eq=False)
class CachedKernel:
    """A fused kernel, whole, with all its tile configurations: n nodes, m edges, c configurations.

    Nothing is pruned, for a configuration tiles the kernel and not single nodes; and equal rows
    stay apart, for the paper removes duplicates of layout collections only (section 2.2.2), and
    a kernel is measured by the runtimes of the very configurations that are picked.

    Attributes:
        name: the kernel's name.
        split: ``train``, ``valid`` or ``test`` of the source.
        node_feat: (n, 140) float32, -1 padded.
        node_opcode: (n,) uint8.
        edges: (m, 2) int32, rows [user, operand].
        config_feat: (c, 24) float32, tile bounds as in the source.
        runtime: (c,) int64 nanoseconds, all zero if unlabelled.
        normalizer: (c,) int64 nanoseconds: the default configuration's on the same machine; all
            zero if the source has none.
    """

    name: str
    split: str
    node_feat: np.ndarray
    node_opcode: np.ndarray
    edges: np.ndarray
    config_feat: np.ndarray
    runtime: np.ndarray
    normalizer: np.ndarray

    @classmethod
    def of(cls, raw: TileKernel, split: str) -> CachedKernel:
        """A raw kernel in the types of the cache, its features padded with -1 (section 2.2.4)."""
        return cls(
            name=raw.name,
            split=split,
            node_feat=pad_with_minus_one(raw.node_feat, raw.node_opcode),
            node_opcode=raw.node_opcode,
            edges=raw.edge_index.astype(np.int32),
            config_feat=raw.config_feat,
            runtime=raw.config_runtime,
            normalizer=raw.config_runtime_normalizers,
        )

    @property
    def labelled(self) -> bool:
        """Return whether the runtimes are known."""
        return bool(len(self.runtime)) and bool(self.runtime[0] > 0)

    @property
    def nothing_to_rank(self) -> str:
        """Return why nothing can be ranked in it, in words; empty if something can."""
        if not self.labelled:
            return UNLABELLED
        target = self.target
        return EVEN if target.min() == target.max() else ""

    @property
    def original(self) -> np.ndarray:
        """(c,) int32: which configuration each of the source file's is, here the same one."""
        return np.arange(len(self.runtime), dtype=np.int32)

    @property
    def target(self) -> np.ndarray:
        """(c,) float64: runtime / normalizer, or the runtime where there is no normalizer.

        Within a kernel either says which configuration is faster. The normalizers take out that
        its runs came from machines of slightly different speed.
        """
        return self.runtime / np.where(self.normalizer > 0, self.normalizer, 1)

    @property
    def source_runtimes(self) -> np.ndarray:
        """(c,) float64 of the source file's configurations, in its order: the :attr:`target`."""
        return self.target

    @property
    def compilers_own(self) -> int | None:
        """Return the compiler's default configuration: the first that took its normalizer.

        In every file that we have that is the first of all; ``None`` if the runtimes or the
        normalizers are unknown, or none agrees.
        """
        is_default = (self.normalizer > 0) & (self.runtime == self.normalizer)
        return int(is_default.argmax()) if is_default.any() else None

    @property
    def layouts_set(self) -> np.ndarray:
        """(c,) int64: zeros, for a tile size sets no layout."""
        return np.zeros(len(self.runtime), np.int64)

    def packed(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The kernel's arrays; its row of the table says no more of them."""
        return dict(vars(self)), {}

    @classmethod
    def unpacked(cls, row: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> CachedKernel:
        """The kernel of a row of the table and its slices of the flat arrays."""
        return cls(row["graph"], row["split"], **arrays)
