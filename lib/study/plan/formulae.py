"""How time and memory grow with a graph's size: formulae, and how they are fitted.

A step, a score and a file take a time that grows with a graph's size. For each, the formula below
is fitted to the measured graphs by non-negative least squares of relative errors:

    file      a (configurations x configurable nodes) + b kept nodes + c
    step      a (kept nodes x configurations of the step) + b kept nodes + c
    score     a kept nodes + b

``kept`` are the nodes that pruning keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls


@dataclass(frozen=True)
class Shape:
    """What formulae read of a graph: kept nodes, configurable ones, configurations."""

    kept: float
    configurable: float
    configurations: float
    batch: float  # configurations of a step


@dataclass(frozen=True)
class Sides:
    """The graphs of a fold.

    Of a fold that nobody knows yet, ``train`` and ``valid`` both have every labelled graph, and a
    share of what they take counts.

    Attributes:
        train, valid, test: graphs to learn from, of validation, and of the test.
        learned, held: shares of ``train`` and ``valid``.
        beside: of other collections, to learn from as well; the share is that of ``train``.
    """

    train: Sequence[Shape]
    valid: Sequence[Shape]
    test: Sequence[Shape]
    learned: float = 1.0
    held: float = 1.0
    beside: Sequence[Shape] = ()


Terms = Callable[[Shape], tuple[float, ...]]


def of_a_file(shape: Shape) -> tuple[float, ...]:
    """What reading and caching a file grows with."""
    return shape.configurations * shape.configurable, shape.kept, 1.0


def of_a_step(shape: Shape) -> tuple[float, ...]:
    """What a step of training grows with."""
    return shape.kept * shape.batch, shape.kept, 1.0


def of_a_score(shape: Shape) -> tuple[float, ...]:
    """What scoring a configuration grows with."""
    return shape.kept, 1.0


def constant(shape: Shape) -> tuple[float, ...]:
    """What does not grow."""
    return (1.0,)


def fitted(
    shapes: Sequence[Shape], values: Sequence[float], terms: Terms
) -> Callable[[Shape], float]:
    """The formula of ``terms`` that fits the values best, no coefficient below 0.

    Args:
        shapes: of the measured graphs.
        values: what they took, above 0.
        terms: of the formula.
    """
    rows = np.array([terms(shape) for shape in shapes])
    known = np.maximum(np.asarray(values, np.float64), 1e-9)
    scale = np.maximum(rows.max(0), 1e-9)
    found, _ = nnls(rows / scale / known[:, None], np.ones(len(known)))
    coefficients = found / scale
    return lambda shape: float(np.dot(coefficients, terms(shape)))
