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
    ResolvedCopy,
    ResolvedOperation,
    copy_features,
    off_layout_features,
)
from lib.compiler.cpu.moves import MovedTensor
from lib.compiler.cpu.repeated import REPEATED_FEATURES, repeated_features, repeated_work
from lib.compiler.cpu.tables import ProgramTables
from lib.compiler.graph import TensorGraph
from lib.inputs.feature_table import FeatureTable


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
        orders, chains = self.tables.orders.items, self.chains
        copies = self.tables.copies.items[len(self.copies) :]
        self.copies.add(
            copy_features(chains, [self._resolved(copy) for copy in copies]),
            [(copy.tensor, copy.reader) for copy in copies],
            self._shares([copy.tensor for copy in copies]),
        )
        operations = self.tables.off_layout.items[len(self.off_layout) :]
        tensors = [self._tensor(operation) for operation in operations]
        resolved = [
            ResolvedOperation(operation.node, orders[operation.order], operation.role, tensor)
            for operation, tensor in zip(operations, tensors, strict=True)
        ]
        self.off_layout.add(
            [off_layout_features(chains, operation) for operation in resolved],
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

    def _resolved(self, copy: LayoutCopy) -> ResolvedCopy:
        """A copy with its orders, and what they are of where it is read through reshapes."""
        moved, orders = None, self.tables.orders.items
        if copy.path:
            view, end = self.tables.loops.view(copy.path), copy.path[-1]
            plain = view.end_order(self.tensors.plain[end])  # type: ignore[union-attr]
            moved = MovedTensor(view.sizes, plain, float(self.tensors.bytes[end]))  # type: ignore[union-attr]
        before, after = orders[copy.before], orders[copy.after]
        return ResolvedCopy(copy.tensor, before, after, copy.reason, copy.reader, moved)

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
