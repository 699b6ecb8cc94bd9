"""From a cached graph to what its configurations make a compiler do, as tensors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from lib.cache.codec import DIGITS, TENSORS, decode_layouts
from lib.cache.graph import CachedGraph
from lib.compiler.chains import Chains
from lib.compiler.effects import NO_ROLE, OffLayoutOperation
from lib.compiler.features import (
    COPY_FEATURES,
    OFF_LAYOUT_FEATURES,
    ResolvedCopy,
    ResolvedOperation,
    as_table,
    copy_features,
    off_layout_features,
)
from lib.compiler.graph import TensorGraph
from lib.compiler.hardware import HARDWARE
from lib.compiler.propagation import propagate
from lib.compiler.tables import ProgramTables
from lib.inputs.chunks import device_of, in_order, scores_of_rows
from lib.models.plus import CostBatch
from lib.settings import PlusSettings


def widths(settings: PlusSettings) -> dict[str, int]:
    """How many features a layout copy has, and an off-layout operation, on the hardware."""
    copies, operations = COPY_FEATURES[settings.hardware], OFF_LAYOUT_FEATURES[settings.hardware]
    return {"copy_width": len(copies), "off_layout_width": len(operations)}


KEPT_NUMBERS = 1 << 20  # of copies and operations that a graph's configurations are remembered by


class Resolved(NamedTuple):
    """Numbers of the layout copies and off-layout operations of one configuration."""

    copies: np.ndarray
    off_layout: np.ndarray


class CopiesGraph:
    """A graph whose configurations are resolved as they are needed.

    What a configuration does is remembered, while there is room, and so are the features of each
    layout copy and off-layout operation that was met: batches of one graph share most of them.

    Args:
        graph: whole, or the part that pruning kept: then layouts propagate in that part only.
        propagation: how far, see :func:`lib.compiler.propagation.propagate`.
        hardware: that the program is compiled for, a key of ``HARDWARE``.
    """

    def __init__(self, graph: CachedGraph, propagation: str, hardware: str):
        self.graph, self.propagation = graph, propagation
        self.hardware = HARDWARE[hardware]
        self.tables = ProgramTables.of(TensorGraph.of(graph), self.hardware)
        self.chains = Chains(self.tables.facts.graph)
        digits = decode_layouts(graph.dictionary).reshape(-1, TENSORS, DIGITS)
        self.layouts = self.tables.orders.numbers_of(digits)  # (d, 3)
        self._copies: list[list[float]] = []  # features, by number
        self._off_layout: list[list[float]] = []
        self._known: dict[int, Resolved] = {}
        self._room = KEPT_NUMBERS
        self._bytes = self.tables.facts.graph.bytes
        has_order = np.array(self.tables.facts.has_order, bool)
        self._total = max(1.0, float(self._bytes[has_order].sum()))

    def batch(self, configurations: np.ndarray) -> CostBatch:
        """What some configurations do, (b,) integers: their positions in the cache's cells."""
        effects = self._effects(configurations)
        copies, copy_places = _distinct([each.copies for each in effects])
        operations, places = _distinct([each.off_layout for each in effects])
        copied = (self.tables.copies.items[number].tensor for number in copies)
        nodes = (self._tensor(self.tables.off_layout.items[number]) for number in operations)
        copy_table = as_table(
            [self._copies[n] for n in copies], len(COPY_FEATURES[self.hardware.name])
        )
        width = len(OFF_LAYOUT_FEATURES[self.hardware.name])
        table = as_table([self._off_layout[n] for n in operations], width)
        return CostBatch(
            copies=torch.from_numpy(copy_table),
            copy_bytes=self._shares(copied),
            copy_places=torch.from_numpy(copy_places),
            off_layout=torch.from_numpy(table),
            off_layout_bytes=self._shares(nodes),
            off_layout_places=torch.from_numpy(places),
            configurations=len(configurations),
        )

    def _effects(self, configurations: np.ndarray) -> list[Resolved]:
        """What each configuration does; what earlier calls resolved is kept while there is room."""
        wanted = configurations.tolist()
        new = [one for one in wanted if one not in self._known]
        resolved = dict(zip(new, self._resolve(new), strict=True)) if new else {}
        effects = [self._known[one] if one in self._known else resolved[one] for one in wanted]
        size = sum(len(numbers) for each in resolved.values() for numbers in each)
        if self._room >= size:
            self._room -= size
            self._known |= resolved
        return effects

    def _resolve(self, configurations: list[int]) -> list[Resolved]:
        cells = np.asarray(self.graph.cells[np.array(configurations)])  # (b, k); reads these only
        effects = propagate(self.tables, self.layouts[cells], self.propagation)
        self._describe_new()
        count = len(configurations)
        return [
            Resolved(*each)
            for each in zip(
                _by_configuration(effects.copies, count),
                _by_configuration(effects.off_layout, count),
                strict=True,
            )
        ]

    def _describe_new(self) -> None:
        """Features of the copies and operations that have none yet."""
        orders = self.tables.orders.items
        for copy in self.tables.copies.items[len(self._copies) :]:
            own = copy._replace(before=orders[copy.before], after=orders[copy.after])
            features = copy_features(self.chains, self.hardware, ResolvedCopy(*own))
            self._copies.append(features)
        for operation in self.tables.off_layout.items[len(self._off_layout) :]:
            node, before, order, role = operation
            own = ResolvedOperation(
                node, orders[before], orders[order], role, self._tensor(operation)
            )
            self._off_layout.append(off_layout_features(self.chains, self.hardware, own))

    def _tensor(self, operation: OffLayoutOperation) -> int:
        """The tensor that an off-layout operation, or a configured layout, is about."""
        node, role = operation.node, operation.role
        if role == NO_ROLE:
            return node
        facts = self.tables.facts
        tensor = facts.constrained[facts.place[node]].tensors[role]
        return tensor if tensor >= 0 else node

    def _shares(self, nodes: Iterable[int]) -> torch.Tensor:
        """Bytes of nodes' outputs over those of the program, float32."""
        sizes = np.array([self._bytes[node] for node in nodes], np.float64)
        return torch.from_numpy((sizes / self._total).astype(np.float32))


def _by_configuration(pairs: np.ndarray, count: int) -> list[np.ndarray]:
    """The numbers of each of ``count`` configurations, from pairs [configuration, number]."""
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    return np.split(pairs[:, 1], np.searchsorted(pairs[:, 0], np.arange(1, count)))


def _distinct(each: list[np.ndarray]) -> tuple[list[int], np.ndarray]:
    """Numbers that occur, and (p, 2) places [configuration, position among them].

    They are in the order in which these configurations meet them. Numbers themselves tell what
    earlier batches met, of which a resumed training has seen others; the order of rows decides
    how sums are rounded and what dropout leaves out.
    """
    numbers, index = np.unique(np.concatenate(each), return_inverse=True)
    first = np.full(len(numbers), len(index))
    np.minimum.at(first, index, np.arange(len(index)))
    order = np.argsort(first)
    position = np.empty_like(order)
    position[order] = np.arange(len(order))
    which = np.repeat(np.arange(len(each)), [len(one) for one in each])
    return numbers[order].tolist(), np.stack([which, position[index]], axis=1)


def copies_scores(
    network: nn.Module, graph: CopiesGraph, size: int, rows: np.ndarray | None = None
) -> np.ndarray:
    """Scores of a graph's configurations, (r,) float64.

    Args:
        network: in evaluation mode.
        graph: the graph.
        size: configurations at a time; a score does not depend on it, but for rounding.
        rows: (r,) positions of configurations in the cache; ``None`` for all.
    """
    device = device_of(network)
    return scores_of_rows(
        lambda chosen: network(graph.batch(chosen).to(device)),
        len(graph.graph.cells),
        rows,
        lambda count: in_order(count, size),
    )
