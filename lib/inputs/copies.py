"""From a cached graph to what its configurations make a compiler do, as tensors."""

from __future__ import annotations

from functools import cached_property, partial
from threading import RLock
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import nn

from lib.cache.codec import DIGITS, TENSORS, decode_layouts
from lib.cache.graph import CachedGraph
from lib.compiler.cpu.features import COPY_FEATURES, OFF_LAYOUT_FEATURES
from lib.compiler.cpu.nodes import NODE_FEATURES
from lib.compiler.cpu.repeated import REPEATED_FEATURES
from lib.compiler.cpu.returning import Returning
from lib.compiler.cpu.tables import ProgramTables
from lib.compiler.tpu import PRODUCT_FEATURES, ROLE_OF_FEATURE
from lib.inputs.chunks import device_of, in_order, scores_of_rows
from lib.inputs.context import ContextRows, Happening
from lib.inputs.input import Input
from lib.inputs.kept import kept_batch
from lib.inputs.products import ProductsGraph
from lib.inputs.shared import SharedProgram
from lib.models.plus import CostBatch
from lib.settings import PlusSettings


def widths(settings: PlusSettings) -> dict[str, Any]:
    """How many features a layout copy has, an off-layout operation, a repeated operation, and a
    node; of TPUs, what :class:`lib.models.prices.Prices` reads."""
    if settings.hardware == "tpu":
        return {"width": len(PRODUCT_FEATURES), "roles": ROLE_OF_FEATURE}
    return {
        "copy_width": len(COPY_FEATURES),
        "off_layout_width": len(OFF_LAYOUT_FEATURES),
        "repeated_width": len(REPEATED_FEATURES),
        "node_width": len(NODE_FEATURES),
    }


KEPT_NUMBERS = 1 << 20  # of copies and operations that a graph's configurations are remembered by
KEPT_WHOLE = 64  # configurations at most of a graph whose batch is kept


class Resolved(NamedTuple):
    """What one configuration does, numbered as :class:`lib.compiler.cpu.effects.Effects` has it."""

    copies: np.ndarray
    off_layout: np.ndarray
    repeated: np.ndarray


class CopiesGraph:
    """A graph whose configurations are resolved as they are needed.

    What a configuration does is remembered, while there is room, and so are the features of each
    layout copy and off-layout operation that was met: batches of one program share most of them.

    Args:
        graph: whole, or the part that pruning kept: then layouts propagate in that part only.
        context_blocks: of the network.
    """

    def __init__(self, graph: CachedGraph, context_blocks: int):
        self.graph, self.context_blocks = graph, context_blocks
        self._known: dict[int, Resolved] = {}
        self._room = KEPT_NUMBERS
        self._whole: CostBatch | None = None
        self._lock = RLock()

    @cached_property
    def program(self) -> SharedProgram:
        """Of the graph; not worked out where all that is asked for lies on disk."""
        return SharedProgram.of(self.graph)

    @property
    def tables(self) -> ProgramTables:
        """Of the program."""
        return self.program.tables

    @cached_property
    def layouts(self) -> np.ndarray:
        """Numbers of the orders in the graph's dictionary, (d, 3)."""
        digits = decode_layouts(self.graph.dictionary).reshape(-1, TENSORS, DIGITS)
        return self.tables.orders.numbers_of(digits)

    @cached_property
    def _context(self) -> ContextRows:
        return ContextRows(self.program.tensors, self.context_blocks)

    def batch(self, configurations: np.ndarray) -> CostBatch:
        """What some configurations do, (b,) integers: their positions in the cache's cells.

        A batch of all of them, of a graph that has few, is made once, and kept on disk: every step
        of training on the graph has it, and every fold.
        """
        count = len(self.graph.cells)
        with self._lock:
            if count > KEPT_WHOLE or not np.array_equal(configurations, np.arange(count)):
                return self._made(configurations)
            if self._whole is None:
                make = partial(self._made, configurations)
                self._whole = kept_batch(self.graph, self.context_blocks, make)
            return self._whole

    def _made(self, configurations: np.ndarray) -> CostBatch:
        with self.program.lock:
            return self._assembled(configurations)

    def _assembled(self, configurations: np.ndarray) -> CostBatch:
        program, effects = self.program, self._effects(configurations)
        copies, copy_places = _distinct([effect.copies for effect in effects])
        operations, places = _distinct([effect.off_layout for effect in effects])
        repeated, repeated_places = _distinct([effect.repeated for effect in effects])
        context = self._context.batch(
            Happening(program.copies.nodes[copies], copy_places),
            Happening(program.off_layout.nodes[operations], places),
            len(configurations),
        )
        return CostBatch(
            copies=torch.from_numpy(program.copies.features[copies]),
            copy_bytes=torch.from_numpy(program.copies.shares[copies]),
            off_layout=torch.from_numpy(program.off_layout.features[operations]),
            off_layout_bytes=torch.from_numpy(program.off_layout.shares[operations]),
            off_layout_places=torch.from_numpy(places),
            repeated=torch.from_numpy(program.repeated.features[repeated]),
            repeated_work=torch.from_numpy(program.repeated.shares[repeated]),
            repeated_places=torch.from_numpy(repeated_places),
            configurations=len(configurations),
            context=context,
        )

    def _effects(self, configurations: np.ndarray) -> list[Resolved]:
        """What each configuration does; what earlier calls resolved is kept while there is room."""
        rows = configurations.tolist()
        new = [row for row in rows if row not in self._known]
        resolved = dict(zip(new, self._resolve(new), strict=True)) if new else {}
        effects = [self._known[row] if row in self._known else resolved[row] for row in rows]
        size = sum(len(numbers) for effect in resolved.values() for numbers in effect)
        if self._room >= size:
            self._room -= size
            self._known |= resolved
        return effects

    def _resolve(self, configurations: list[int]) -> list[Resolved]:
        cells = np.asarray(self.graph.cells[np.array(configurations)])  # (b, k); reads these only
        effects = Returning(self.tables, self.layouts[cells]).effects()
        self.program.describe_new()
        count = len(configurations)
        return [
            Resolved(*numbers)
            for numbers in zip(
                _by_configuration(effects.copies, count),
                _by_configuration(effects.off_layout, count),
                _by_configuration(effects.repeated, count),
                strict=True,
            )
        ]


def copies_graph(graph: CachedGraph, settings: PlusSettings) -> CopiesGraph | ProductsGraph:
    """The graph as the model's settings want it resolved; of TPUs it is no copies that count."""
    if settings.hardware == "tpu":
        return ProductsGraph(graph)
    return CopiesGraph(graph, settings.context_blocks)


def _by_configuration(pairs: np.ndarray, count: int) -> list[np.ndarray]:
    """The numbers of each of ``count`` configurations, from pairs [configuration, number]."""
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    return np.split(pairs[:, 1], np.searchsorted(pairs[:, 0], np.arange(1, count)))


def _distinct(parts: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers that occur, and (p, 2) places [configuration, position among them].

    They are in the order in which these configurations meet them. Numbers themselves tell what
    earlier batches met, of which a resumed training has seen other ones; the order of rows decides
    how sums are rounded and what dropout leaves out.
    """
    positions, numbers = pd.factorize(np.concatenate(parts))
    which = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    return numbers, np.stack([which, positions], axis=1)


def copies_scores(
    network: nn.Module,
    graph: CopiesGraph | ProductsGraph,
    size: int,
    rows: np.ndarray | None = None,
) -> np.ndarray:
    """Scores of a graph's configurations, or of those at ``rows``, (r,) float64, by a network in
    evaluation mode, ``size`` at a time: a score does not depend on that, but for rounding."""
    device = device_of(network)
    return scores_of_rows(
        lambda configurations: network(graph.batch(configurations).to(device)),
        len(graph.graph.cells),
        rows,
        lambda count: in_order(count, size),
    )


INPUT = Input(prepare=copies_graph, scores=copies_scores, widths=widths)
