"""One graph as the stages after preprocessing see it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lib.tpugraphs.dataset import EVEN, SAME, UNLABELLED

EFFECTS = ("effects", "effect_sizes", "effect_feat", "happens")  # fields that describe them
ALIGNMENT = 8  # of each graph's cells, so that a view as a wider type is aligned


@dataclass(frozen=True, eq=False)
class CachedGraph:
    """A pruned graph with its distinct configurations: n nodes, m edges, k configurable nodes.

    Attributes:
        name: the graph's name.
        split: ``train``, ``valid`` or ``test`` of the source.
        node_feat: (n, 140) float32, -1 padded.
        node_opcode: (n,) uint8.
        edges: (m, 2) int32, rows [user, operand], positions among the kept nodes.
        node_splits: (s,) int32, ascending: where the source's parts of the program begin, and
            the last one ends, as positions among the kept nodes.
        config_nodes: (k,) int32, positions among the kept nodes.
        dictionary: (d, 3) int32, base-7 codes of output, input and kernel layout.
        cells: (c, k) unsigned integers into ``dictionary``.
        runtime: (c,) int64 nanoseconds, all zero if unlabelled.
        original: (o,) int32: which of the c configurations each of the source file's o is.
        repeats: (r, 2) int64 nanoseconds: two measurements of each configuration that the source
            file has twice or more often.
        effects: (m, 3) int32: what its configurations make a compiler do, if that was worked out
            (:mod:`lib.compiler.cpu.resolved`): kind, and the two nodes that it happens at.
        effect_sizes: (m,) float32, of each.
        effect_feat: (f,) float16, the features of one effect after the other.
        happens: (p, 2) int32 pairs [configuration, effect], ascending.
    """

    name: str
    split: str
    node_feat: np.ndarray
    node_opcode: np.ndarray
    edges: np.ndarray
    node_splits: np.ndarray
    config_nodes: np.ndarray
    dictionary: np.ndarray
    cells: np.ndarray
    runtime: np.ndarray
    original: np.ndarray
    repeats: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int64))
    effects: np.ndarray = field(default_factory=lambda: np.zeros((0, 3), np.int32))
    effect_sizes: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    effect_feat: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float16))
    happens: np.ndarray = field(default_factory=lambda: np.zeros((0, 2), np.int32))

    @property
    def labelled(self) -> bool:
        """Return whether the runtimes are known."""
        return bool(len(self.runtime)) and bool(self.runtime[0] > 0)

    @property
    def nothing_to_rank(self) -> str:
        """Return why nothing can be ranked in it, in words; empty if something can."""
        if not self.labelled:
            return UNLABELLED
        if len(self.runtime) == 1:
            return SAME
        return EVEN if self.runtime.min() == self.runtime.max() else ""

    @property
    def source_runtimes(self) -> np.ndarray:
        """(o,) int64 nanoseconds of the source file's configurations, in its order.

        Equal configurations have the smallest of theirs.
        """
        return self.runtime[self.original]

    @property
    def compilers_own(self) -> int | None:
        """Return the source file's configuration that sets no layout, the first of equals.

        It is what the compiler does by itself; ``None`` if none of them leaves all to it.
        """
        sets_nothing = self.layouts_set == 0
        return int(sets_nothing.argmax()) if sets_nothing.any() else None

    @property
    def layouts_set(self) -> np.ndarray:
        """(o,) int64: how many layouts each of the source file's configurations sets."""
        of_entry = (self.dictionary != 0).sum(axis=1)  # code 0: six times -1
        counts = np.zeros(len(self.cells), np.int64)
        for cells in self.cells.T:  # a node at a time: c may be 100,000
            counts += of_entry[cells]
        return counts[self.original]

    def packed(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """The graph's arrays, cells as bytes, and what its row of the table says of them."""
        data = np.ascontiguousarray(self.cells).reshape(-1).view(np.uint8)
        cells = np.pad(data, (0, -len(data) % ALIGNMENT))
        return {**vars(self), "cells": cells}, {"cell_type": self.cells.dtype.name}

    @classmethod
    def unpacked(cls, row: Mapping[str, Any], arrays: dict[str, np.ndarray]) -> CachedGraph:
        """The graph of a row of the table and its slices of the flat arrays."""
        shape = (row["configurations"], row["config_nodes"])
        dtype = np.dtype(row["cell_type"])
        data = arrays.pop("cells")[: shape[0] * shape[1] * dtype.itemsize]
        return cls(row["graph"], row["split"], cells=data.view(dtype).reshape(shape), **arrays)


def neighbours(count: int, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Immediate neighbours of each node, users and operands alike, each once.

    Args:
        count: number of nodes.
        edges: (m, 2) positions.

    Returns:
        ``(sources, pointers)``, int64: the neighbours of node i are
        ``sources[pointers[i]:pointers[i + 1]]``, ascending.
    """
    pairs = np.concatenate([edges, edges[:, ::-1]]).reshape(-1, 2).astype(np.int64)
    keys = np.unique(pairs[:, 0] * count + pairs[:, 1])
    pointers = np.searchsorted(keys, np.arange(count + 1, dtype=np.int64) * count)
    return keys % max(1, count), pointers.astype(np.int64)
