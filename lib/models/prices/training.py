"""Solving for the prices of a TPU's layouts, in place of training.

Runtimes are sums, whose parts are linear in the weights (network.py). So the likeliest weights,
given the measurements, solve a linear system: how far weights are from their expected values, and
relative runtimes from the predicted ones, each in its standard deviations (a Gaussian process). How
far predictions may be off is tried out on configurations that are left out; it is never less than
repeated measurements differ.

How much of it other programs are given is tried out on programs that are left out: as much as ranks
them best, and nothing unless that is better than arithmetic. Two programs are too few to tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from scipy.linalg import block_diag, solve

from lib.models.prices.network import CENTRES, FAR, PADDING, Prices
from lib.ranking.folds import family
from lib.ranking.metrics import kendall_tau
from lib.ranking.rounds import noise_of
from lib.training.fold import Fold, validation_rows
from lib.training.split import LabelledGraph

MOST, LEAST, TOGETHER = 4096, 64, 1 << 14  # configurations of a graph, and of all graphs
LEFT_OUT = 4  # one of so many
# Standard deviations: of the weight of padding; of prices by likeness, if all work has the price;
# of a node's own price. They are relative runtimes, as scores are.
OF_PADDING, OF_LIKENESS, OF_ITS_OWN = 0.25, 0.25, 0.1
OFF = (1e-4, 1e-3, 1e-2)  # how far predictions may lie off
JITTER = 1e-4  # on a diagonal, which separates nodes that are nearly the same
TRUST = (0.0, 0.25, 0.5, 0.75, 1.0)  # in what other programs have shown
FEW = 2  # programs that are too few to leave one out


class Measured(NamedTuple):
    """A graph's configurations: (n, weights) what makes their scores, (n,) runtimes over their
    median, both around their means, and how far repeated measurements differ."""

    parts: np.ndarray
    runtimes: np.ndarray
    noise: float

    def taken(self, rows: np.ndarray) -> Measured:
        """Some of the configurations, by a (n,) mask."""
        return self._replace(parts=self.parts[rows], runtimes=self.runtimes[rows])

    def tau(self, weights: np.ndarray) -> float:
        """Return how well (weights,) rank the configurations."""
        return kendall_tau(self.parts @ weights, self.runtimes)


@dataclass(eq=False)
class PricesFold(Fold):
    """Training and validation graphs of one fold, each sorted by name.

    Graphs of other collections that are learned from as well come last.
    """

    def steps(self) -> int:
        """Return 0: everything there is to learn is solved for (:meth:`pretrain`)."""
        return 0

    def groups(self, generator: np.random.Generator) -> list[Any]:
        """Return no groups, for there are no steps."""
        return []

    def _rows(self, graph: LabelledGraph) -> np.ndarray:
        most = max(LEAST, min(MOST, TOGETHER // len(self.train)))
        return validation_rows(graph, most)

    def standardize(self, network: Prices) -> None:
        """Fit the transform of features, and draw centres from the same nodes."""
        batches = [graph.prepared.batch(self._rows(graph)) for graph in self.train]
        features = torch.cat([batch.features for batch in batches]).unique(dim=0)
        network.standardize.fit(features)
        standardized = network.standardize(features)[torch.randperm(len(features))[:CENTRES]]
        network.centres.fill_(FAR)
        network.centres[: len(standardized)] = standardized

    def pretrain(self, network: Prices) -> None:
        """Solve for all weights at once: everything there is to learn."""
        used = _used(network)
        measured = [self._measured(network, graph, used) for graph in self.train]
        expected = _expected(network, used)
        masks = [np.arange(len(graph.runtimes)) % LEFT_OUT != 0 for graph in measured]
        parts = [graph.taken(mask) for graph, mask in zip(measured, masks, strict=True)]
        left_out = [graph.taken(~mask) for graph, mask in zip(measured, masks, strict=True)]

        def left_out_tau(off: float) -> float:
            weights = _solved(parts, expected, off)
            return float(np.mean([graph.tau(weights) for graph in left_out]))

        off = max(OFF, key=left_out_tau)
        with torch.no_grad():
            network.weights[torch.from_numpy(used)] = torch.from_numpy(
                _solved(measured, expected, off)
            )
            network.trust.fill_(self._trust(measured, expected, off))

    def _trust(self, measured: list[Measured], expected: np.ndarray, off: float) -> float:
        """Return how much of what is learned to give to programs that were not measured.

        Variants of one network are one program (:func:`lib.ranking.folds.family`).
        """
        programs = [family(graph.name) for graph in self.train]
        if len(set(programs)) <= FEW:
            return TRUST[0]
        taus = []  # (programs, TRUST)
        for program in sorted(set(programs)):
            rest = [g for g, own in zip(measured, programs, strict=True) if own != program]
            learned = _solved(rest, expected, off) - _before(expected)
            left_out = [g for g, own in zip(measured, programs, strict=True) if own == program]
            taus.append(
                [
                    np.mean([g.tau(_before(expected) + trust * learned) for g in left_out])
                    for trust in TRUST
                ]
            )
        return TRUST[int(np.argmax(np.mean(taus, axis=0)))]  # the least of equals

    def _measured(self, network: Prices, graph: LabelledGraph, used: np.ndarray) -> Measured:
        rows = self._rows(graph)
        batch = graph.prepared.batch(rows)
        with torch.no_grad():
            parts = network.parts(batch)[:, torch.from_numpy(used)]
        counts = torch.zeros(len(rows), len(parts), dtype=torch.float64)
        counts.scatter_add_(1, batch.places, torch.ones(batch.places.shape, dtype=torch.float64))
        summed, runtime = (counts @ parts).numpy(), graph.runtime[rows]
        relative = runtime / np.median(runtime)
        return Measured(
            summed - summed.mean(axis=0),
            relative - relative.mean(),
            noise_of(graph.prepared.graph.repeats),
        )


def _used(network: Prices) -> np.ndarray:
    """Return positions of the weights that there is anything to multiply with, (w,)."""
    centres = np.flatnonzero((network.centres[:, 0] != FAR).numpy())
    return np.concatenate([[0], 1 + centres, 1 + CENTRES + centres])


def _expected(network: Prices, used: np.ndarray) -> np.ndarray:
    """(w, w) the inverse of the weights' covariance before anything is measured."""
    with torch.no_grad():
        likenesses = network.likeness(network.centres[: len(used) // 2])
    alike, same = (part[:, : len(part)].numpy() + JITTER * np.eye(len(part)) for part in likenesses)
    return block_diag(OF_PADDING**-2, alike / OF_LIKENESS**2, same / OF_ITS_OWN**2)


def _before(expected: np.ndarray) -> np.ndarray:
    """(w,) the weights before anything is measured: arithmetic."""
    return PADDING * np.eye(1, len(expected))[0]


def _solved(measured: Sequence[Measured], expected: np.ndarray, off: float) -> np.ndarray:
    """The likeliest weights, (w,), if predictions lie ``off``."""
    before = _before(expected)
    left, right = expected.copy(), np.zeros(len(expected))
    for graph in measured:
        certain = 1 / (off**2 + graph.noise**2)
        left += certain * graph.parts.T @ graph.parts
        right += certain * graph.parts.T @ (graph.runtimes - graph.parts @ before)
    scale = np.diag(left) ** -0.5  # weights differ in size by orders of magnitude
    return before + scale * solve(left * scale[:, None] * scale, right * scale, assume_a="pos")
