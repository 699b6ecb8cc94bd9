"""From a cached graph to what its configurations make a compiler do, as tensors."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import torch
from torch import nn

from lib.cache.codec import DIGITS, TENSORS, decode_layouts
from lib.cache.graph import CachedGraph
from lib.layouts.chains import Chains
from lib.layouts.program import Program
from lib.layouts.propagation import Propagation
from lib.layouts.rows import (
    MOVE_FEATURES,
    STATE_FEATURES,
    as_table,
    move_features,
    state_features,
)
from lib.model.plus import CostBatch

KEPT_NUMBERS = 1 << 20  # of moves and states that a graph's configurations are remembered by


class MovingGraph:
    """A graph whose configurations are resolved as they are needed.

    What a configuration does is remembered, while there is room, and so are the features of each
    move and state that was met: batches of one graph share most of them.

    Args:
        graph: whole, or the part that pruning kept: then layouts reach that part only.
        reach: how far a layout reaches, see :class:`lib.layouts.propagation.Propagation`.
    """

    def __init__(self, graph: CachedGraph, reach: str):
        self.graph = graph
        self.program = Program.of(graph)
        self.chains = Chains(self.program)
        self.propagation = Propagation(self.program, reach)
        digits = decode_layouts(graph.dictionary).reshape(-1, TENSORS, DIGITS)
        self.layouts = self.propagation.numbers_of(digits)  # (d, 3)
        self._moves: list[list[float]] = []
        self._states: list[list[float]] = []
        self._known: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        self._room = KEPT_NUMBERS
        sizes = [
            self.program.bytes[node]
            for node in range(len(self.program.opcode))
            if self.propagation.moves_data(node)
        ]
        self._total = max(1.0, float(np.sum(sizes)))

    def batch(self, rows: np.ndarray) -> CostBatch:
        """What the configurations at ``rows`` of the cache's cells do, (b,) integers."""
        each = self._found(rows)
        (moves, move_places), (states, state_places) = (
            _distinct([one[kind] for one in each]) for kind in (0, 1)
        )
        of = self.propagation
        return CostBatch(
            moves=torch.from_numpy(as_table([self._moves[n] for n in moves], MOVE_FEATURES)),
            move_bytes=self._shares(of.moves.items[n][0] for n in moves),
            move_places=torch.from_numpy(move_places),
            states=torch.from_numpy(as_table([self._states[n] for n in states], STATE_FEATURES)),
            state_bytes=self._shares(of.states.items[n][0] for n in states),
            state_places=torch.from_numpy(state_places),
            configurations=len(rows),
        )

    def _found(self, rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        """Numbers of moves and of states of each configuration; those of earlier calls are kept
        while there are not too many."""
        new = np.array([row for row in rows.tolist() if row not in self._known], np.int64)
        found = dict(zip(new.tolist(), self._run(new), strict=True)) if len(new) else {}
        every = [self._known[row] if row in self._known else found[row] for row in rows.tolist()]
        size = sum(len(one) for pair in found.values() for one in pair)
        if self._room >= size:
            self._room -= size
            self._known |= found
        return every

    def _run(self, rows: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
        cells = np.asarray(self.graph.cells[rows])  # (b, k); reads these rows only
        found = self.propagation.run(self.layouts[cells])
        self._learn()
        sides = []
        for places in (found.moves, found.states):
            places = places[np.argsort(places[:, 0], kind="stable")]
            starts = np.searchsorted(places[:, 0], np.arange(1, len(rows)))
            sides.append(np.split(places[:, 1], starts))
        return list(zip(*sides, strict=True))

    def _learn(self) -> None:
        """Features of what is new."""
        of, orders = self.propagation, self.propagation.orders.items
        for tensor, before, after, *why in of.moves.items[len(self._moves) :]:
            self._moves.append(
                move_features(self.chains, tensor, orders[before], orders[after], *why)
            )
        for node, before, order in of.states.items[len(self._states) :]:
            self._states.append(state_features(self.chains, node, orders[before], orders[order]))

    def _shares(self, nodes: Iterable[int]) -> torch.Tensor:
        bytes_of = np.array([self.program.bytes[node] for node in nodes], np.float64)
        return torch.from_numpy((bytes_of / self._total).astype(np.float32))


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


@torch.inference_mode()
def moving_scores(network: nn.Module, graph: MovingGraph, size: int) -> np.ndarray:
    """Scores of every configuration of a graph, (c,) float64.

    Args:
        network: in evaluation mode.
        graph: the graph.
        size: configurations at a time; a score does not depend on it, but for rounding.
    """
    device = next(network.parameters()).device
    scores = np.empty(len(graph.graph.cells), np.float64)
    for start in range(0, len(scores), size):
        rows = np.arange(start, min(start + size, len(scores)))
        scores[rows] = network(graph.batch(rows).to(device)).float().cpu().numpy()
    return scores
