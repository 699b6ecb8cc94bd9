"""A recursive LSTM over a program's tree, as Tiramisu's cost model has it, written plainly.

A loop reads its children one after the other with an LSTM, each a statement or a loop inside, and
joins what is left with its own iterations and kind (https://arxiv.org/abs/2104.04955). Programs of
a batch must have trees of one shape, and measured programs have so many that batches are small.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from lib.models.cdmpp import DEVICE_FEATURES, LEAF_FEATURES, perceptron
from lib.models.inputs import Standardize
from lib.tensorir.records import Programs
from lib.tensorir.tree import LEAF, NO_ROW

LOOP = 6  # numbers of a loop: log2 of iterations and of unrolling, its kind


@dataclass(frozen=True)
class Shape:
    """A tree: children of each node, -1 being the root's number, and rows of the leaves."""

    children: dict[int, list[int]]
    rows: dict[int, int]


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
        self.leaf = perceptron(LEAF_FEATURES, width, 1, width, 0.0)
        self.among = nn.LSTM(width, width, batch_first=True)
        self.join = nn.Linear(width + LOOP, width)
        self.decoder = perceptron(width + DEVICE_FEATURES, 2 * width, 2, 1, 0.0)
        self.level = nn.Parameter(torch.zeros(()))

    def forward(self, features: Tensor, loops: Tensor, shape: Shape, devices: Tensor) -> Tensor:
        """Of b programs of one shape.

        Args:
            features: (b, l, 164) of the leaves.
            loops: (b, n, ``LOOP``) of the nodes.
            shape: of all of them.
            devices: (d, 8).
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

        program = embed(-1)
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

    def read(self, network: RecursiveLstm, own: np.ndarray, devices: Tensor) -> Tensor:
        """The network's predictions of programs of one shape, (b, d)."""
        shape, forest = self.shapes[self.shape[own[0]]], self.data.forest
        leaves = np.arange(len(shape.rows))
        ends = np.append(forest.starts[1:], forest.nodes)
        nodes = np.arange(ends[own[0]] - forest.starts[own[0]])
        features = self.data.features[self.data.starts[own][:, None] + leaves].astype(np.float32)
        loops = self.loops[forest.starts[own][:, None] + nodes]
        return network(torch.from_numpy(features), torch.from_numpy(loops), shape, devices)
