"""What the default network leaves unexplained: a sum over copies and operations?

    make everything
    .venv/bin/python -m tests.bench.residual [--collections NAME ...]

For each validation graph, ranks of its runtimes (as normal scores) are regressed on those of its
out-of-fold scores. What is left is taken apart by restricted maximum likelihood: a share that is
*additive* (each layout copy and each off-layout operation adds something of its own, of either
sign, whose typical size is a power of its bytes), and a rest that is independent from configuration
to configuration, of one variance for all or of one that grows with what they copy. The likelihood
is taken on a grid.

Were the additive share near one, better costs of copies would rank better; near nothing, they would
not. A few dozen configurations tell little about one graph, and shares have bounds, so that the
estimate is biased; so it is made for drawn numbers as well of which none, or all, are additive.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import polars as pl
import torch
from scipy.stats import norm, rankdata

from lib.cache.graph import CachedGraph
from lib.cache.reader import Cache
from lib.inputs.copies import CopiesGraph
from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS

POWERS = (0.0, 0.5, 1.0)  # of bytes: typical size of what a copy or an operation adds
SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.97)
UNEQUAL = (0.0, 0.5, 0.97)  # share of the rest whose variance grows with what is moved
FEWEST = 20  # configurations


def normal_scores(values: np.ndarray) -> np.ndarray:
    """Ranks as quantiles of the normal distribution."""
    return norm.ppf((rankdata(values) - 0.5) / len(values))


def contents(graph: CachedGraph) -> tuple[np.ndarray, np.ndarray]:
    """How often each copy and each operation happens under each configuration, (c, m + s), and
    its bytes."""
    batch = CopiesGraph(graph, 1).batch(np.arange(len(graph.runtime)))
    counts, sizes, around = [], [], batch.context
    copies = torch.column_stack(
        [around.copy_places[:, 0], around.copies[around.copy_places[:, 1], 0]]
    )
    for places, own in (
        (copies, batch.copy_bytes),
        (batch.off_layout_places, batch.off_layout_bytes),
    ):
        count = np.zeros((batch.configurations, len(own)))
        np.add.at(count, tuple(places.numpy().T), 1)
        counts.append(count)
        sizes.append(own.numpy())
    return np.concatenate(counts, axis=1), np.concatenate(sizes)


def free_of(score: np.ndarray) -> np.ndarray:
    """(c - 2, c): orthonormal rows to which a constant and the scores are nothing."""
    fixed = np.stack([np.ones(len(score)), score], axis=1)
    return np.linalg.svd(np.eye(len(score)) - fixed @ np.linalg.pinv(fixed))[2][:-2]


def covariances(basis: np.ndarray, counts: np.ndarray, sizes: np.ndarray) -> Iterator:
    """(additive share, covariance up to a factor) of what is left, on the grid."""
    one = np.eye(len(basis))
    for power in POWERS:
        each = counts * sizes**power
        sums = each @ each.T
        additive, growing = (_scaled(basis @ c @ basis.T) for c in (sums, np.diag(np.diag(sums))))
        for share, unequal in product(SHARES, UNEQUAL):
            rest = unequal * growing + (1 - unequal) * one
            yield share, share * additive + (1 - share) * rest + 1e-9 * one


def _scaled(covariance: np.ndarray) -> np.ndarray:
    return covariance * len(covariance) / max(np.trace(covariance), 1e-30)


def shares_of(left: np.ndarray, grid: list[tuple[float, np.ndarray]]) -> np.ndarray:
    """The likeliest additive share of each column of ``left``, (c - 2, k)."""
    best, likeliest = np.full(left.shape[1], -np.inf), np.zeros(left.shape[1])
    for share, covariance in grid:
        _, determinant = np.linalg.slogdet(covariance)
        variance = np.mean(left * np.linalg.solve(covariance, left), axis=0)
        likelihood = -0.5 * (len(left) * np.log(variance) + determinant)
        likeliest = np.where(likelihood > best, share, likeliest)
        best = np.maximum(likelihood, best)
    return likeliest


def measure(graph: CachedGraph, score: np.ndarray, draws: np.random.Generator) -> np.ndarray:
    """Shares of the variance: left by the scores, additive of that, and of drawn ranks of which
    none, and all, is additive."""
    true, basis = normal_scores(graph.runtime), free_of(normal_scores(score))
    counts, sizes = contents(graph)
    grid = list(covariances(basis, counts, sizes))
    summed = (counts * sizes**0.5) @ draws.normal(size=counts.shape[1])
    drawn = [draws.normal(size=len(true)), normal_scores(summed)]
    shares = shares_of(basis @ np.stack([true, *drawn], axis=1), grid)
    return np.array([np.var(basis @ true) / np.var(true), *shares])


def of_collection(collection: str, outputs: Path) -> np.ndarray:
    """A row of :func:`measure` for each validation graph."""
    folder = outputs / collection
    cache, draws, shares = Cache(folder / "cache-all"), np.random.default_rng(0), []
    files = sorted((folder / "scores").glob("fold_*.parquet"))
    scores = pl.concat([pl.read_parquet(file).filter(split="valid") for file in files])
    for (name,), own in scores.group_by("graph", maintain_order=True):
        graph = cache.graph(name)
        _, first = np.unique(np.asarray(graph.original), return_index=True)
        score = own.sort("config")["score"].to_numpy()[first]
        if len(score) >= FEWEST and graph.runtime.min() < graph.runtime.max():
            shares.append(measure(graph, score, draws))
    return np.array(shares)


def main() -> None:
    """Print a line a collection, means over graphs and standard errors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--collections", nargs="+", default=LAYOUT_COLLECTIONS)
    parser.add_argument("--outputs", type=Path, default=Path("outputs"))
    args = parser.parse_args()
    print("| collection | graphs | left | additive share | if none were | if all were |")
    print("|---|--:|--:|--:|--:|--:|")
    for collection in args.collections:
        shares = of_collection(collection, args.outputs)
        errors = shares.std(axis=0, ddof=1) / len(shares) ** 0.5
        cells = [f"{m:.2f} ± {e:.2f}" for m, e in zip(shares.mean(axis=0), errors, strict=True)]
        print(f"| {collection} | {len(shares)} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
