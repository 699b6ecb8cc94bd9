"""Effects of a program's configurations in XLA for CPUs, as tables that stage 1 writes.

An *effect* is a layout copy, an off-layout operation or a repeated one. The effects that a
configuration has depend on all of its layouts together; the features of an effect depend on the
program alone.
"""

from __future__ import annotations

import numpy as np

from lib.cache.codec import DIGITS, TENSORS, decode_layouts
from lib.cache.graph import CachedGraph
from lib.compiler.cpu.chains import Chains
from lib.compiler.cpu.features import (
    COPY_FEATURES,
    OFF_LAYOUT_FEATURES,
    REPEATED_FEATURES,
    copy_features,
    off_layout_features,
    repeated_features,
    repeated_work,
)
from lib.compiler.cpu.moves import MovedTensor
from lib.compiler.cpu.returning import Returning
from lib.compiler.cpu.tables import ProgramTables
from lib.compiler.graph import TensorGraph

# Numbers of features of an effect, by kind.
WIDTHS = len(COPY_FEATURES), len(OFF_LAYOUT_FEATURES), len(REPEATED_FEATURES)
TOGETHER = 1024  # configurations that are resolved at a time
Table = tuple[np.ndarray, np.ndarray, np.ndarray]  # features, the two nodes and sizes of effects


def effects_of(graph: CachedGraph) -> dict[str, np.ndarray]:
    """Return the fields of a whole graph that describe its effects, see :class:`CachedGraph`.

    Kinds are 0 for copies, 1 for off-layout operations and 2 for repeated ones, and come in this
    order; each has ``WIDTHS`` features. A size is bytes, or work, over the bytes of the program.
    """
    resolved = ResolvedProgram(TensorGraph.of(graph))
    layouts = resolved.layouts(graph)
    happens: list[list[np.ndarray]] = [[], [], []]
    for start in range(0, len(graph.cells), TOGETHER):
        batch = layouts[graph.cells[start : start + TOGETHER]]
        kinds = Returning(resolved.tables, batch).effects()
        for found, pairs in zip(happens, kinds, strict=True):
            found.append(pairs + np.array([start, 0]))
    tables = resolved.copies(), resolved.off_layout(), resolved.repeated()
    counts = [len(sizes) for _, _, sizes in tables]
    kinds, first = np.repeat(np.arange(len(tables)), counts), np.cumsum([0, *counts[:-1]])
    nodes = np.concatenate([nodes.reshape(-1, 2) for _, nodes, _ in tables])
    pairs = np.concatenate(
        [np.zeros((0, 2), np.int64)]
        + [p + np.array([0, f]) for found, f in zip(happens, first, strict=True) for p in found]
    )
    return {
        "effects": np.column_stack([kinds, nodes]).astype(np.int32),
        "effect_sizes": np.concatenate([sizes for _, _, sizes in tables]).astype(np.float32),
        "effect_feat": np.concatenate([f.ravel() for f, _, _ in tables]).astype(np.float16),
        "happens": pairs[np.lexsort((pairs[:, 1], pairs[:, 0]))].astype(np.int32),
    }


class ResolvedProgram:
    """A program, and the effects of those of its configurations that were resolved so far.

    Args:
        tensors: those of the program.

    Attributes:
        tables: the effects, numbered as configurations are resolved.
    """

    def __init__(self, tensors: TensorGraph):
        self.tensors, self.chains = tensors, Chains(tensors)
        self.tables = ProgramTables(tensors)
        has_order = np.array(self.tables.facts.has_order, bool)
        self._total = max(1.0, float(tensors.bytes[has_order].sum()))

    def layouts(self, graph: CachedGraph) -> np.ndarray:
        """Return the numbers of the orders in a graph's dictionary, (d, 3)."""
        digits = decode_layouts(graph.dictionary).reshape(-1, TENSORS, DIGITS)
        return self.tables.orders.numbers_of(digits)

    def copies(self) -> Table:
        """Return the table of layout copies; their nodes are the tensor and the reader."""
        graph, orders, copies = self.tensors, self.tables.orders.items, self.tables.copies.items
        moves = []
        for copy in copies:
            tensor = copy.path[-1] if copy.path else copy.tensor
            shape, plain = graph.shapes[tensor], graph.plain[tensor]
            if copy.path:  # through reshapes, in parts of dimensions
                view = self.tables.loops.view(copy.path)
                shape, plain = view.sizes, view.end_order(plain)  # type: ignore[union-attr]
            moved = MovedTensor(shape, plain, float(graph.bytes[tensor]))
            moves.append((moved, orders[copy.before], orders[copy.after]))
        features = copy_features(self.chains, copies, moves)
        nodes = [(copy.tensor, copy.reader) for copy in copies]
        return features, np.array(nodes, np.int64), self._shares([copy.tensor for copy in copies])

    def off_layout(self) -> Table:
        """Return the table of off-layout operations; each has one node."""
        orders, items = self.tables.orders.items, self.tables.off_layout.items
        features = [off_layout_features(self.chains, node, orders[order]) for node, order in items]
        nodes = [node for node, _ in items]
        pairs = np.array([nodes, nodes], np.int64).T
        return np.array(features, np.float32), pairs, self._shares(nodes)

    def repeated(self) -> Table:
        """Return the table of repeated operations; each has one node."""
        operations = self.tables.repeated.items
        if not operations:  # then the library's facts of the program are not needed
            return np.zeros(0), np.zeros((0, 2), np.int64), np.zeros(0)
        library = self.tables.calls.library
        features = [repeated_features(library, operation) for operation in operations]
        nodes = [(operation.node, operation.node) for operation in operations]
        work = [repeated_work(library, operation) / self._total for operation in operations]
        return np.array(features, np.float32), np.array(nodes, np.int64), np.array(work)

    def _shares(self, nodes: list[int]) -> np.ndarray:
        """Return the bytes of nodes' outputs over those of the program."""
        return self.tensors.bytes[np.array(nodes, np.int64)] / self._total
