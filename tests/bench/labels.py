"""Which label of a configuration's rounds agrees best with a second measurement.

    .venv/bin/python -m tests.bench.labels [DATASET ...]

Each program's rounds are parted into the even and the odd ones: two measurements. A label is judged
twice, by Kendall's tau, mean over the graphs of a collection: between the label of one half and the
same label of the other, and between the label of one half and the tenth percentile of the other.
The second cannot be high by a fault that both halves share, such as a label that is the same for
all. :func:`lib.ranking.rounds.label` is the mean of the faster half.

A *sweep* is one round of every configuration of a program, a second or less. What a sweep has in
common, the median over configurations of how far each is from its own median, is the machine's:
labels *of levelled rounds* are made after it is taken away.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

from lib.ranking.metrics import kendall_tau
from lib.settings.resolved import BUNDLED
from lib.tpugraphs.dataset import MEASUREMENTS

Label = Callable[[np.ndarray], np.ndarray]  # of the logarithms of rounds (c, r), one a row


def levelled(logarithms: np.ndarray) -> np.ndarray:
    """Logarithms of rounds (c, r) without what each sweep, a column, has in common."""
    common = np.zeros(logarithms.shape[1])
    for _ in range(2):  # the medians of rows are better known once sweeps are level
        own = np.median(logarithms - common, axis=1, keepdims=True)
        common = np.median(logarithms - own, axis=0)
    return logarithms - common


def between(low: float, high: float) -> Label:
    """The mean of a row's values from one quantile to another."""

    def mean(values: np.ndarray) -> np.ndarray:
        first, end = (round(share * values.shape[1]) for share in (low, high))
        return np.sort(values, axis=1)[:, first : max(end, first + 1)].mean(axis=1)

    return mean


def quantile(share: float) -> Label:
    """A quantile of each row."""
    return lambda values: np.quantile(values, share, axis=1)


LABELS: dict[str, Label] = {
    "tenth percentile": quantile(0.1),
    "lower quartile": quantile(0.25),
    "median": quantile(0.5),
    "mean of the faster half": between(0, 0.5),
    "mean from 1/8 to 5/8": between(0.125, 0.625),
    "mean from 1/4 to 3/4": between(0.25, 0.75),
}


def agreements(rounds: np.ndarray) -> dict[str, tuple[float, float]]:
    """By label: tau between the halves, and of it with the tenth percentile of the other half.

    Args:
        rounds: (c, r) ns, none unused.
    """
    halves = rounds[:, ::2], rounds[:, 1::2]
    plain = [np.log(half) for half in halves]
    tenth = [LABELS["tenth percentile"](half) for half in plain]
    found = {}
    for suffix, known in (
        ("", plain),
        (", of levelled rounds", [levelled(half) for half in plain]),
    ):
        for name, own in LABELS.items():
            first, second = map(own, known)
            other = [kendall_tau(first, tenth[1]), kendall_tau(second, tenth[0])]
            found[name + suffix] = kendall_tau(first, second), float(np.mean(other))
    return found


def main() -> None:
    """Print a table a dataset: a line a label, a column a collection."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("datasets", nargs="*", type=Path, default=[BUNDLED])
    for root in parser.parse_args().datasets:
        found: dict[str, dict[str, list[tuple[float, float]]]] = {}
        graphs = pl.read_parquet(root / MEASUREMENTS).group_by("collection", "graph")
        for (collection, _), rows in graphs:
            fewest = rows["rounds"].list.len().min()
            rounds = np.array(rows["rounds"].list.head(fewest).to_list())
            for name, pair in agreements(rounds).items():
                found.setdefault(name, {}).setdefault(collection, []).append(pair)
        names = sorted(next(iter(found.values())))
        print(f"| {root.name}: with itself, with tenth percentiles | " + " | ".join(names) + " |")
        print("|---" + "|--:" * len(names) + "|")
        for name, own in found.items():
            means = [np.mean(own[collection], axis=0) for collection in names]
            print(f"| {name} | " + " | ".join(f"{a:.3f}, {b:.3f}" for a, b in means) + " |")


if __name__ == "__main__":
    main()
