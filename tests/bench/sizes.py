"""How large official TpuGraphs is: what a rehearsal generates.

Sources: the numbers of files are those of Kaggle's archive (a public notebook counts them: 235,
244, 7,229 files, 5,709 / 676 / 844 of them tiles); nodes and configurations are the means and
ranges that table 2 of the TpuGraphs paper (arXiv 2308.13490) gives for each collection. Neither
tells how many nodes can be configured. Two graphs do: 121 of 1,696 (the same notebook's) and 62 of
3,163 (the one of ``data/tpu-v3-sample``); we take 2 to 8 % of the nodes, the mean between.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

SPREAD = 3.0  # of the beta distribution between least and most: larger is narrower
CONFIGURABLE = (0.02, 0.08)  # share of a graph's nodes


@dataclass(frozen=True)
class Range:
    """Mean, least and most of a number."""

    mean: float
    least: int
    most: int

    def quantiles(self, count: int) -> np.ndarray:
        """``count`` numbers, ascending, whose mean and bounds are about these.

        Evenly spaced quantiles of a beta distribution between the bounds.
        """
        share = (self.mean - self.least) / (self.most - self.least)
        places = (np.arange(count) + 0.5) / count
        drawn = beta.ppf(places, SPREAD * share, SPREAD * (1 - share))
        return np.round(self.least + (self.most - self.least) * drawn).astype(np.int64)


@dataclass(frozen=True)
class Sizes:
    """A collection: files of ``train``, ``valid`` and ``test``; what a graph has."""

    graphs: tuple[int, int, int]
    nodes: Range
    configurations: Range


OFFICIAL_SIZES = {
    "layout-xla-random": Sizes((69, 7, 8), Range(14_105, 372, 43_614), Range(11_648, 109, 99_783)),
    "layout-xla-default": Sizes((61, 7, 8), Range(14_105, 372, 43_614), Range(10_147, 681, 71_574)),
    "layout-nlp-random": Sizes(
        (207, 20, 17), Range(5_659, 876, 21_919), Range(66_089, 8_843, 100_001)
    ),
    "layout-nlp-default": Sizes(
        (198, 20, 17), Range(5_659, 876, 21_919), Range(56_534, 9_032, 90_985)
    ),
    "tile-xla": Sizes((5_709, 676, 844), Range(40, 2, 394), Range(1_842, 2, 39_366)),
}


@dataclass(frozen=True)
class GraphSize:
    """One graph of a collection.

    Attributes:
        split: ``train``, ``valid`` or ``test``.
        nodes, configurable, configurations: how many it has; of a kernel no node is configurable.
    """

    split: str
    nodes: int
    configurable: int
    configurations: int


def official_graphs(collection: str, share: float = 1.0, seed: int = 0) -> list[GraphSize]:
    """Graphs such as a collection has, so many that they are a share of them.

    Each split has the same spread of sizes, and a graph at least; which numbers of nodes and of
    configurations come together is drawn.
    """
    sizes, rng = OFFICIAL_SIZES[collection], np.random.default_rng(seed)
    graphs = []
    for split, files in zip(("train", "valid", "test"), sizes.graphs, strict=True):
        count = max(1, round(share * files))
        nodes = rng.permutation(sizes.nodes.quantiles(count))
        configurations = rng.permutation(sizes.configurations.quantiles(count))
        configurable = np.maximum(2, nodes * rng.uniform(*CONFIGURABLE, count)).astype(np.int64)
        if collection.startswith("tile"):
            configurable = np.zeros(count, np.int64)
        rows = np.stack([nodes, configurable, configurations], 1).tolist()
        graphs += [GraphSize(split, *row) for row in rows]
    return graphs
