"""A recursive LSTM over a program's tree, as Tiramisu's cost model has it, written plainly.

A loop reads its children one after the other with an LSTM, each a statement or a loop inside, and
joins what is left with its own iterations and kind (https://arxiv.org/abs/2104.04955). Written so,
programs of a batch must have trees of one shape, and measured programs have so many that batches
are small. :meth:`RecursiveLstm.mixed` computes the same of trees of any shapes, height by height.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from lib.models.common.rows import Standardize
from lib.programs.models.cdmpp import DEVICE_FEATURES, LEAF_FEATURES, perceptron
from lib.programs.tensorir.records import Programs
from lib.programs.tensorir.tree import LEAF, NO_ROW

LOOP = 6  # numbers of a loop: log2 of iterations and of unrolling, its kind


@dataclass(frozen=True)
class Shape:
    """A tree: children of each node, -1 being the root's number, and rows of the leaves."""

    children: dict[int, list[int]]
    rows: dict[int, int]

    @cached_property
    def levels(self) -> list[Level]:
        """The loops, those of height 1 first; the root is alone on the last level."""
        by_height: dict[int, list[int]] = {}
        place = dict(self.rows)

        def visit(node: int) -> int:
            inside = self.children.get(node, [])
            if node in self.rows or not inside:
                place.setdefault(node, len(self.rows))
                return 0
            height = 1 + max([visit(child) for child in inside])
            by_height.setdefault(height, []).append(node)
            return height

        visit(-1)
        count, levels = len(self.rows) + 1, []
        for _, nodes in sorted(by_height.items()):
            inside = [[place[child] for child in self.children[node]] for node in nodes]
            place |= {node: count + k for k, node in enumerate(nodes)}
            count += len(nodes)
            levels.append(Level(nodes, inside))
        return levels


@dataclass(frozen=True)
class Level:
    """Loops of one height.

    Attributes:
        nodes: their numbers, -1 for the root.
        inside: places of what each has inside: leaves by their rows, then one for loops around
            nothing, then loops in the order of the levels.
    """

    nodes: list[int]
    inside: list[list[int]]


def shapes_of(data: Programs) -> tuple[np.ndarray, list[Shape]]:
    """(programs,) the number of each one's shape, and the shapes."""
    forest = data.forest
    ends = np.append(forest.starts[1:], forest.nodes)
    seen: dict[bytes, int] = {}
    shapes: list[Shape] = []
    number = np.empty(len(forest), np.int64)
    for k, (start, end) in enumerate(zip(forest.starts, ends, strict=True)):
        part = slice(start, end)
        leaf = forest.kind[part] == LEAF
        key = forest.depth[part].tobytes() + forest.row[part].tobytes() + leaf.tobytes()
        if key not in seen:
            seen[key] = len(shapes)
            shapes.append(_shape(forest.depth[part], forest.row[part], leaf))
        number[k] = seen[key]
    return number, shapes


def _shape(depth: np.ndarray, row: np.ndarray, leaf: np.ndarray) -> Shape:
    children: dict[int, list[int]] = {-1: []}
    path = [-1]
    for node, level in enumerate(depth.tolist()):
        del path[level + 1 :]
        if not leaf[node] or row[node] != NO_ROW:
            children.setdefault(path[-1], []).append(node)
        path.append(node)
    return Shape(children, {n: int(r) for n, r in enumerate(row.tolist()) if r != NO_ROW})


def loop_numbers(data: Programs) -> np.ndarray:
    """(nodes, ``LOOP``) float32 of every node."""
    forest = data.forest
    kinds = forest.kind[:, None] == np.arange(LEAF)
    scales = [np.log2(forest.extent), np.log2(1 + forest.unroll)]
    return np.concatenate([np.stack(scales, 1), kinds], 1).astype(np.float32)


class RecursiveLstm(nn.Module):
    """Logarithms of latencies, (b, d)."""

    def __init__(self, width: int = 96):
        super().__init__()
        self.standardize = Standardize(LEAF_FEATURES)
        self.leaf = perceptron(LEAF_FEATURES, (width,), width, 0.0)
        self.among = nn.LSTM(width, width, batch_first=True)
        self.join = nn.Linear(width + LOOP, width)
        self.decoder = perceptron(width + DEVICE_FEATURES, (2 * width, 2 * width), 1, 0.0)
        self.level = nn.Parameter(torch.zeros(()))

    def forward(self, features: Tensor, loops: Tensor, shape: Shape, devices: Tensor) -> Tensor:
        """Of b programs of one shape.

        Args:
            features: (b, l, 164) of the leaves.
            loops: (b, n, ``LOOP``) of the nodes.
            shape: of all of them.
            devices: (d, 11).
        """
        leaves = nn.functional.elu(self.leaf(self.standardize(features)))

        def embed(node: int) -> Tensor:
            if node in shape.rows:
                return leaves[:, shape.rows[node]]
            inside = [embed(child) for child in shape.children.get(node, [])]
            if not inside:  # a loop around statements without features
                return leaves.new_zeros(len(leaves), leaves.shape[2])
            state = self.among(torch.stack(inside, 1))[1][0][0]
            own = loops[:, node] if node >= 0 else loops.new_zeros(len(loops), LOOP)
            return nn.functional.elu(self.join(torch.cat([state, own], 1)))

        return self._decoded(embed(-1), devices)

    def mixed(
        self,
        features: Tensor,
        loops: Tensor,
        nodes: np.ndarray,
        shapes: Sequence[Shape],
        devices: Tensor,
    ) -> Tensor:
        """Of b programs of any shapes.

        Args:
            features: (leaves, 164) of one program after the other.
            loops: (nodes, ``LOOP``) of their nodes, likewise.
            nodes: (b,) where each one's nodes begin.
            shapes: of each.
            devices: (d, 11).
        """
        table = nn.functional.elu(self.leaf(self.standardize(features)))
        table = torch.cat([table, table.new_zeros(1, table.shape[1])])
        loops = torch.cat([loops, loops.new_zeros(1, LOOP)])  # the last is a root's
        leaves = np.cumsum([0] + [len(one.rows) for one in shapes])
        places = [[*range(a, b), len(table) - 1] for a, b in pairwise(leaves.tolist())]
        for height in range(max(len(one.levels) for one in shapes)):
            inside, own, count = [], [], len(table)
            for k, one in enumerate(shapes):
                if height < len(one.levels):
                    level = one.levels[height]
                    inside += [[places[k][c] for c in each] for each in level.inside]
                    own += [nodes[k] + n if n >= 0 else -1 for n in level.nodes]
                    places[k] += range(count, count + len(level.nodes))
                    count += len(level.nodes)
            table = torch.cat([table, self._joined(table, inside, loops[own])])
        program = table[[one[-1] for one in places]]
        return self._decoded(program, devices)

    def _joined(self, table: Tensor, inside: list[list[int]], own: Tensor) -> Tensor:
        """(k, width) loops, of rows of the table that are inside each and what they are."""
        counts = [len(one) for one in inside]
        padded = [one + [0] * (max(counts) - len(one)) for one in inside]
        packed = nn.utils.rnn.pack_padded_sequence(
            table[torch.tensor(padded)], torch.tensor(counts), True, enforce_sorted=False
        )
        state = self.among(packed)[1][0][0]
        return nn.functional.elu(self.join(torch.cat([state, own], 1)))

    def _decoded(self, program: Tensor, devices: Tensor) -> Tensor:
        """(b, d) of (b, width)."""
        both = [
            program[:, None].expand(-1, len(devices), -1),
            devices.expand(len(program), -1, -1),
        ]
        return self.decoder(torch.cat(both, 2)).squeeze(-1) + self.level


@dataclass
class Trees:
    """Everything that the network reads of a dataset."""

    data: Programs
    shape: np.ndarray
    shapes: list[Shape]
    loops: np.ndarray

    @classmethod
    def of(cls, data: Programs) -> Trees:
        """Of all programs."""
        return cls(data, *shapes_of(data), loop_numbers(data))

    def batches(
        self, programs: np.ndarray, size: int, generator: np.random.Generator
    ) -> Iterator[np.ndarray]:
        """Some programs in batches of one shape each, in random order."""
        order = generator.permutation(programs)
        order = order[np.argsort(self.shape[order], kind="stable")]
        cuts = np.flatnonzero(np.diff(self.shape[order])) + 1
        parts = [
            part
            for own in np.split(order, cuts)
            for part in np.array_split(own, -(-len(own) // size))
        ]
        for number in generator.permutation(len(parts)):
            yield parts[number]

    def read_mixed(self, network: RecursiveLstm, own: np.ndarray, devices: Tensor) -> Tensor:
        """The network's predictions of any programs, (b, d)."""
        forest, shapes = self.data.forest, [self.shapes[k] for k in self.shape[own]]
        ends = np.append(forest.starts[1:], forest.nodes)
        sizes = ends[own] - forest.starts[own]
        rows = [
            self.data.starts[k] + np.arange(len(s.rows)) for k, s in zip(own, shapes, strict=True)
        ]
        nodes = [forest.starts[k] + np.arange(n) for k, n in zip(own, sizes, strict=True)]
        features = self.data.features[np.concatenate(rows)].astype(np.float32)
        loops = self.loops[np.concatenate(nodes)]
        first = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        arrays = torch.from_numpy(features), torch.from_numpy(loops)
        return network.mixed(*arrays, first, shapes, devices)

    def read(self, network: RecursiveLstm, own: np.ndarray, devices: Tensor) -> Tensor:
        """The network's predictions of programs of one shape, (b, d)."""
        shape, forest = self.shapes[self.shape[own[0]]], self.data.forest
        leaves = np.arange(len(shape.rows))
        ends = np.append(forest.starts[1:], forest.nodes)
        nodes = np.arange(ends[own[0]] - forest.starts[own[0]])
        features = self.data.features[self.data.starts[own][:, None] + leaves].astype(np.float32)
        loops = self.loops[forest.starts[own][:, None] + nodes]
        return network(torch.from_numpy(features), torch.from_numpy(loops), shape, devices)
