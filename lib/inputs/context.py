"""Distinct states of a program's nodes under a batch of configurations, before messages and after.

Two configurations leave a node in the same state if the same layout copies and off-layout
operations happen at it, and, after a block, at its neighbours. States are told apart by 64-bit
sums of hashes; two different ones of a graph are taken for one with a probability below 1e-6.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch
from scipy import sparse

from lib.compiler.cpu.nodes import node_features
from lib.compiler.graph import TensorGraph
from lib.models.context import ContextBatch, ContextLayer, Neighbours

TENSOR, READER = 0, 1  # the ends of a layout copy
OWN, OPERANDS, USERS, COPIED, READ, OFF_LAYOUT = range(6)  # what a hash is of
MASK, FACTORS = (1 << 64) - 1, (0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93)  # odd ones


@dataclass(frozen=True, eq=False)
class Happening:
    """Layout copies, or off-layout operations, of a batch.

    Attributes:
        nodes: (m, ends) int64: of each copy the tensor and the reader; of an operation its node.
        places: (p, 2) int64 pairs [configuration, which].
    """

    nodes: np.ndarray
    places: np.ndarray

    def cells(self, end: int) -> tuple[np.ndarray, np.ndarray]:
        """The nodes at one end of each pair, and the configurations, (p,) each."""
        return self.nodes[self.places[:, 1], end], self.places[:, 0]


@dataclass(frozen=True, eq=False)
class Rows:
    """The distinct states of n nodes under b configurations, numbered as they are met.

    Attributes:
        numbers: (n, b) int64, -1 where no state is wanted.
        nodes, columns: (r,) int64, where each row is met first.
    """

    numbers: np.ndarray
    nodes: np.ndarray
    columns: np.ndarray

    @classmethod
    def of(cls, states: np.ndarray, needed: np.ndarray) -> Rows:
        """Of (n, b) hashes, where they are needed."""
        cells = np.flatnonzero(needed)
        codes, _ = pd.factorize(states.ravel()[cells])
        numbers = np.full(needed.shape, -1, np.int64)
        numbers.ravel()[cells] = codes
        return cls(numbers, *np.divmod(cells[_first_of(codes)], needed.shape[1]))

    def pairs(self, happening: Happening, end: int) -> np.ndarray:
        """(p, 2) pairs [row, which]: what happens where each row is met first."""
        nodes, columns = happening.cells(end)
        rows = self.numbers[nodes, columns]
        first = (self.nodes[rows] == nodes) & (self.columns[rows] == columns)
        return np.stack([rows[first], happening.places[first, 1]], axis=1)

    def surrounded(self, happening: Happening) -> tuple[np.ndarray, np.ndarray]:
        """Distinct [which, row of each of its nodes], and (p, 2) pairs [configuration, one]."""
        columns, which = happening.places.T
        ends = self.numbers[happening.nodes[which], columns[:, None]]  # (p, ends)
        keys = which
        for end in ends.T:
            keys = keys * (len(self.nodes) + 1) + end
        places, _ = pd.factorize(keys)
        distinct = np.column_stack([which, ends])[_first_of(places)]
        return distinct, np.stack([columns, places], axis=1)


@dataclass(frozen=True, eq=False)
class Adjacent:
    """The neighbours of n nodes on one side: their operands, or their users.

    Attributes:
        sources: (e,) int64, those of node 0, then of node 1, ...
        pointers: (n + 1,) int64, where each node's start.
        matrix: (n, n) of the same as ones; a neighbour that is one twice counts twice.
    """

    sources: np.ndarray
    pointers: np.ndarray
    matrix: sparse.csr_array

    @classmethod
    def of(cls, neighbours: list[list[int]]) -> Adjacent:
        """From the neighbours of each node."""
        count = len(neighbours)
        pointers = np.cumsum([0, *map(len, neighbours)])
        sources = np.array([node for nodes in neighbours for node in nodes], np.int64)
        ones = np.ones(len(sources), np.uint64)
        return cls(sources, pointers, sparse.csr_array((ones, sources, pointers), (count, count)))

    def heard(self, rows: Rows, before: Rows) -> Neighbours:
        """Which rows of the layer before are the neighbours of each row."""
        counts = self.pointers[rows.nodes + 1] - self.pointers[rows.nodes]
        pointers = np.concatenate([[0], np.cumsum(counts)])
        starts = np.repeat(self.pointers[rows.nodes] - pointers[:-1], counts)
        sources = self.sources[starts + np.arange(pointers[-1])]
        numbers = before.numbers[sources, np.repeat(rows.columns, counts)]
        return Neighbours(torch.from_numpy(numbers), torch.from_numpy(pointers))


class ContextRows:
    """Makes the :class:`ContextBatch` of a graph's batches.

    Args:
        graph: n nodes.
        blocks: of the network that reads it.
    """

    def __init__(self, graph: TensorGraph, blocks: int):
        self.nodes, self.blocks = torch.from_numpy(node_features(graph)), blocks
        self.operands, self.users = Adjacent.of(graph.operands), Adjacent.of(graph.users)
        self._own = _mixed(np.arange(1, len(self.nodes) + 1, dtype=np.uint64), OWN)[:, None]

    def batch(self, copies: Happening, operations: Happening, configurations: int) -> ContextBatch:
        """The states that copies and operations of b configurations meet."""
        states, needed = self._before(copies, operations, configurations)
        masks = self._wanted(needed)
        first = rows = Rows.of(states + self._own, masks[0])
        layers = []
        for mask in masks[1:]:
            states = self._heard(states)
            before, rows = rows, Rows.of(states + self._own, mask)
            layers.append(self._layer(rows, before))
        return ContextBatch(  # type: ignore[call-arg]
            self.nodes,
            torch.from_numpy(first.nodes),
            *(torch.from_numpy(first.pairs(copies, end)) for end in (TENSOR, READER)),  # type: ignore[arg-type]
            torch.from_numpy(first.pairs(operations, 0)),
            layers,
            *map(torch.from_numpy, rows.surrounded(copies)),
        )

    def _before(
        self, copies: Happening, operations: Happening, configurations: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """(n, b) hashes of states before any block, zero where nothing happens, and whether."""
        states = np.zeros((len(self.nodes), configurations), np.uint64)
        happens = np.zeros(states.shape, bool)
        kinds = ((copies, TENSOR, COPIED), (copies, READER, READ), (operations, 0, OFF_LAYOUT))
        for happening, end, kind in kinds:
            hashes = _mixed(np.arange(1, len(happening.nodes) + 1, dtype=np.uint64), kind)
            cells = happening.cells(end)
            np.add.at(states, cells, hashes[happening.places[:, 1]])
            happens[cells] = True
        return states, happens

    def _wanted(self, needed: np.ndarray) -> list[np.ndarray]:
        """(n, b) where states are needed, before the blocks and after each: what is heard there."""
        masks = [needed]
        for _ in range(self.blocks):
            mask = masks[0].astype(np.uint64)
            # The operands of a needed node are those that have it among their users.
            reached = self.users.matrix @ mask + self.operands.matrix @ mask
            masks.insert(0, masks[0] | (reached > 0))
        return masks

    def _heard(self, states: np.ndarray) -> np.ndarray:
        """Hashes of states after a block, zero where nothing is and nothing is heard."""
        heard = _mixed(states, OWN)
        heard += self.operands.matrix @ _mixed(states, OPERANDS)
        heard += self.users.matrix @ _mixed(states, USERS)
        return heard

    def _layer(self, rows: Rows, before: Rows) -> ContextLayer:
        """How rows come of those of the layer before."""
        previous = before.numbers[rows.nodes, rows.columns]
        neighbours = (side.heard(rows, before) for side in (self.operands, self.users))
        return ContextLayer(torch.from_numpy(previous), *neighbours)


def _first_of(numbers: np.ndarray) -> np.ndarray:
    """Where each of the numbers 0, 1, ... stands first."""
    first = np.empty(int(numbers.max(initial=-1)) + 1, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]
    return first


def _mixed(values: np.ndarray, kind: int) -> np.ndarray:
    """64-bit hashes, another function for each kind; zero of zero."""
    mixed = values * np.uint64((FACTORS[0] * (2 * kind + 1)) & MASK)
    for _ in range(2):
        mixed ^= mixed >> np.uint64(32)
        mixed *= np.uint64(FACTORS[1])
    return mixed ^ (mixed >> np.uint64(32))
