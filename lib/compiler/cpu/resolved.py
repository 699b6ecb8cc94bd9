"""What the configurations of a program make XLA for CPUs do, as tables: worked out by stage 1.

An *effect* is a layout copy, an off-layout operation or a repeated one. Which effects a
configuration has, depends on all of its layouts together; what an effect is, on the program alone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lib.cache.codec import DIGITS, TENSORS, decode_layouts
from lib.cache.graph import CachedGraph
from lib.compiler.cpu.chains import Chains
from lib.compiler.cpu.effects import NO_ROLE, LayoutCopy, OffLayoutOperation
from lib.compiler.cpu.features import (
    COPY_FEATURES,
    OFF_LAYOUT_FEATURES,
    copy_features,
    off_layout_features,
)
from lib.compiler.cpu.moves import MovedTensor
from lib.compiler.cpu.repeated import REPEATED_FEATURES, repeated_features, repeated_work
from lib.compiler.cpu.returning import Returning
from lib.compiler.cpu.tables import ProgramTables
from lib.compiler.graph import TensorGraph
from lib.compiler.orders import Order

WIDTHS = len(COPY_FEATURES), len(OFF_LAYOUT_FEATURES), len(REPEATED_FEATURES)  # of effects, by kind
TOGETHER = 1024  # configurations that are resolved at a time


def effects_of(graph: CachedGraph) -> dict[str, np.ndarray]:
    """The fields of a whole graph that tell of its effects, see :class:`CachedGraph`.

    Kinds are 0 for copies, 1 for off-layout operations and 2 for repeated ones, and come in this
    order; each has ``WIDTHS`` features. A size is bytes, or work, over the bytes of the program.
    """
    resolved = ResolvedProgram(TensorGraph.of(graph))
    layouts = resolved.layouts(graph)
    happens: list[list[np.ndarray]] = [[], [], []]
    for start in range(0, len(graph.cells), TOGETHER):
        chosen = layouts[graph.cells[start : start + TOGETHER]]
        effects = Returning(resolved.tables, chosen).effects()
        kinds = effects.copies, effects.off_layout, effects.repeated
        for found, pairs in zip(happens, kinds, strict=True):
            found.append(pairs + np.array([start, 0]))
    tables = resolved.copies(), resolved.off_layout(), resolved.repeated()
    return _joined(tables, [np.concatenate([np.zeros((0, 2), np.int64), *h]) for h in happens])


Table = tuple[np.ndarray, np.ndarray, np.ndarray]  # features, the two nodes and sizes of effects


def _joined(tables: Sequence[Table], happens: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """Effects of all kinds one after the other."""
    counts = [len(sizes) for _, _, sizes in tables]
    kinds, first = np.repeat(np.arange(len(tables)), counts), np.cumsum([0, *counts[:-1]])
    nodes = np.concatenate([nodes.reshape(-1, 2) for _, nodes, _ in tables])
    own = zip(happens, first, strict=True)
    pairs = np.concatenate([numbers + np.array([0, start]) for numbers, start in own])
    return {
        "effects": np.column_stack([kinds, nodes]).astype(np.int32),
        "effect_sizes": np.concatenate([sizes for _, _, sizes in tables]).astype(np.float32),
        "effect_feat": np.concatenate([f.ravel() for f, _, _ in tables]).astype(np.float16),
        "happens": pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))].astype(np.int32),
    }


class ResolvedProgram:
    """A program, and what was met so far in its configurations.

    Args:
        tensors: of the program.

    Attributes:
        tables: what configurations do, numbered as they are resolved.
    """

    def __init__(self, tensors: TensorGraph):
        self.tensors, self.chains = tensors, Chains(tensors)
        self.tables = ProgramTables.of(tensors)
        has_order = np.array(self.tables.facts.has_order, bool)
        self._total = max(1.0, float(tensors.bytes[has_order].sum()))

    def layouts(self, graph: CachedGraph) -> np.ndarray:
        """Numbers of the orders in a graph's dictionary, (d, 3)."""
        digits = decode_layouts(graph.dictionary).reshape(-1, TENSORS, DIGITS)
        return self.tables.orders.numbers_of(digits)

    def copies(self) -> Table:
        """Layout copies: each happens at the tensor and for the reader."""
        copies = self.tables.copies.items
        features = copy_features(self.chains, copies, [self._move(copy) for copy in copies])
        nodes = [(copy.tensor, copy.reader) for copy in copies]
        return features, np.array(nodes, np.int64), self._shares([copy.tensor for copy in copies])

    def off_layout(self) -> Table:
        """Off-layout operations: each happens at its node alone."""
        orders, operations = self.tables.orders.items, self.tables.off_layout.items
        features = [
            off_layout_features(self.chains, node, orders[order], role != NO_ROLE)
            for node, order, role in operations
        ]
        nodes = [(operation.node, operation.node) for operation in operations]
        shares = self._shares([self._tensor(operation) for operation in operations])
        return np.array(features, np.float32), np.array(nodes, np.int64), shares

    def repeated(self) -> Table:
        """Repeated operations, likewise."""
        operations = self.tables.repeated.items
        if not operations:  # nothing is worked out for it
            return np.zeros(0), np.zeros((0, 2), np.int64), np.zeros(0)
        library = self.tables.calls.library
        features = [repeated_features(library, operation) for operation in operations]
        nodes = [(operation.node, operation.node) for operation in operations]
        work = [repeated_work(library, operation) / self._total for operation in operations]
        return np.array(features, np.float32), np.array(nodes, np.int64), np.array(work)

    def _move(self, copy: LayoutCopy) -> tuple[MovedTensor, Order, Order]:
        """What a copy moves, in parts of dimensions where it is read through reshapes, and the
        orders before and after."""
        graph, orders, tensor = self.tensors, self.tables.orders.items, copy.tensor
        shape, plain = graph.shapes[tensor], graph.plain[tensor]
        if copy.path:
            view, tensor = self.tables.loops.view(copy.path), copy.path[-1]
            shape, plain = view.sizes, view.end_order(graph.plain[tensor])  # type: ignore[union-attr]
        moved = MovedTensor(shape, plain, float(graph.bytes[tensor]))
        return moved, orders[copy.before], orders[copy.after]

    def _tensor(self, operation: OffLayoutOperation) -> int:
        """The tensor that an off-layout operation, or a configured layout, is about."""
        node, role = operation.node, operation.role
        if role == NO_ROLE:
            return node
        facts = self.tables.facts
        tensor = facts.constrained[facts.place[node]].tensors[role]
        return tensor if tensor >= 0 else node

    def _shares(self, nodes: list[int]) -> np.ndarray:
        """Bytes of nodes' outputs over those of the program."""
        return self.tensors.bytes[np.array(nodes, np.int64)] / self._total
