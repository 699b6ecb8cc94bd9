"""What all graphs of one program share: what its configurations can do, and the features of that.

A program is in several collections, with configurations of its own in each, which do much the same.
"""

from __future__ import annotations

import hashlib
from threading import Lock
from weakref import WeakValueDictionary

import numpy as np

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
from lib.compiler.cpu.tables import ProgramTables
from lib.compiler.graph import TensorGraph
from lib.compiler.orders import Order


class FeatureTable:
    """What is known of numbered layout copies, or off-layout operations: tables that grow.

    Attributes:
        features: (m, width) float32.
        nodes: (m, nodes) int64, where each happens.
        shares: (m,) float32, bytes over those of the program.
    """

    def __init__(self, width: int, nodes: int):
        self._rooms: tuple[np.ndarray, ...] = (
            np.empty((64, width), np.float32),
            np.empty((64, nodes), np.int64),
            np.empty(64, np.float32),
        )
        self.features, self.nodes, self.shares = (room[:0] for room in self._rooms)

    def __len__(self) -> int:
        return len(self.features)

    def add(
        self,
        features: np.ndarray | list[list[float]],
        nodes: list[tuple[int, ...]],
        shares: np.ndarray,
    ) -> None:
        """Rows of the next numbers."""
        if not len(features):
            return
        old, count = len(self), len(self) + len(features)
        if count > len(self._rooms[0]):
            most = max(count, 2 * len(self._rooms[0]))
            self._rooms = tuple(np.resize(room, (most, *room.shape[1:])) for room in self._rooms)
        for room, rows in zip(self._rooms, (features, nodes, shares), strict=True):
            room[old:count] = rows
        self.features, self.nodes, self.shares = (room[:count] for room in self._rooms)


class SharedProgram:
    """A program, and what was met so far in its configurations.

    Args:
        tensors: of the program.

    Attributes:
        tables: of what configurations do, which grow as they are resolved.
        copies, off_layout, repeated: features of what the tables have numbered, as far as
            :meth:`describe_new` has seen it.
        lock: held by whoever lets any of it grow; graphs in other threads have the same program.
    """

    def __init__(self, tensors: TensorGraph):
        self.lock = Lock()
        self.tensors, self.chains = tensors, Chains(tensors)
        self.tables = ProgramTables.of(tensors)
        self.copies = FeatureTable(len(COPY_FEATURES), nodes=2)
        self.off_layout = FeatureTable(len(OFF_LAYOUT_FEATURES), nodes=1)
        self.repeated = FeatureTable(len(REPEATED_FEATURES), nodes=1)
        has_order = np.array(self.tables.facts.has_order, bool)
        self._total = max(1.0, float(tensors.bytes[has_order].sum()))

    @classmethod
    def of(cls, graph: CachedGraph) -> SharedProgram:
        """The program of a graph: one that is in use already, if it is the same."""
        program = graph.node_feat, graph.node_opcode, graph.edges, graph.config_nodes
        content = fingerprint_arrays(*program)
        shared = _IN_USE.get(content)
        if shared is None:
            shared = _IN_USE[content] = cls(TensorGraph.of(graph))
        return shared

    def describe_new(self) -> None:
        """Features of what has none yet, where it is, and its bytes."""
        orders = self.tables.orders.items
        copies = self.tables.copies.items[len(self.copies) :]
        self.copies.add(
            copy_features(self.chains, copies, [self._move(copy) for copy in copies]),
            [(copy.tensor, copy.reader) for copy in copies],
            self._shares([copy.tensor for copy in copies]),
        )
        operations = self.tables.off_layout.items[len(self.off_layout) :]
        tensors = [self._tensor(operation) for operation in operations]
        self.off_layout.add(
            [
                off_layout_features(self.chains, node, orders[order], role != NO_ROLE)
                for node, order, role in operations
            ],
            [(operation.node,) for operation in operations],
            self._shares(tensors),
        )
        self._describe_repeated()

    def _describe_repeated(self) -> None:
        operations = self.tables.repeated.items[len(self.repeated) :]
        if not operations:  # nothing is worked out for it
            return
        library = self.tables.calls.library
        self.repeated.add(
            [repeated_features(library, op) for op in operations],
            [(op.node,) for op in operations],
            np.array([repeated_work(library, op) / self._total for op in operations], np.float32),
        )

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
        """Bytes of nodes' outputs over those of the program, float32."""
        return (self.tensors.bytes[np.array(nodes, np.int64)] / self._total).astype(np.float32)


def fingerprint_arrays(*arrays: np.ndarray) -> str:
    """SHA-256 of arrays' types, shapes and values, 64 hexadecimal digits."""
    content = hashlib.sha256()
    for array in arrays:
        content.update(f"{array.dtype.str} {array.shape}".encode())
        content.update(np.ascontiguousarray(array).data)
    return content.hexdigest()


_IN_USE: WeakValueDictionary[str, SharedProgram] = WeakValueDictionary()
