"""A training step of ``tgraph-plus`` against the same network written out plainly.

.venv/bin/python -m tests.bench.plus_step [--collection layout-xla-default] [--steps 60]

The rival (:mod:`tests.bench.plus_reference`) computes one member after the other by torch's own
layers; ours takes all members at once, with and without the compiled loops of ``lib.native``. All
have the same weights, take the same steps, forward and backward on the bundled graphs in turns,
on one thread. Figures are medians of what a step takes of the thread's time; batches, which all of
them read alike, are made beforehand.
"""

from __future__ import annotations

import argparse
import statistics
import time
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch import nn

from lib import native
from lib.inputs.input import network_for
from lib.settings import settings_for
from lib.settings.resolved import BUNDLED
from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS, read_dataset
from lib.train.fold import Sample, load_fold
from tests.bench.plus_reference import PlainTGraphPlus
from tests.bench.quality import cache_of

ROUNDS = 3


def main() -> None:
    """Print a row a contestant."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--collection", default="layout-xla-default", choices=LAYOUT_COLLECTIONS)
    parser.add_argument("--steps", type=int, default=60, help="graphs, each a step")
    parser.add_argument("--outputs", type=Path, default=Path("outputs/quality"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    chosen = settings_for(args.collection, read_dataset(BUNDLED), {"also": "none"})
    fold = load_fold(cache_of(chosen, BUNDLED, args.outputs), 0, chosen)
    samples = list(islice(fold.samples(np.random.default_rng(0)), args.steps))
    torch.manual_seed(0)
    ours = network_for(chosen)
    contestants = {"plain": PlainTGraphPlus(ours), "members at once": ours}
    contestants["members at once, compiled loops"] = ours
    loops, found = native.available, {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, network in contestants.items():
            native.available = loops if name.endswith("loops") else lambda: False
            found[name] += seconds(network.train(), samples)
    native.available = loops
    rival = statistics.median(found["plain"])
    print(f"{len(samples)} graphs of {args.collection}, {ROUNDS} rounds")
    print("| training step | ms | times as fast |\n|---|--:|--:|")
    for name, each in found.items():
        median = statistics.median(each)
        print(f"| {name} | {median * 1e3:.1f} | {rival / median:.1f} |")


def seconds(network: nn.Module, samples: list[Sample]) -> list[float]:
    """Of each step's way there and back."""
    taken = []
    for sample in samples:
        network.zero_grad(set_to_none=True)
        started = time.thread_time()
        sample.loss(network(sample.inputs)).backward()
        taken.append(time.thread_time() - started)
    return taken


if __name__ == "__main__":
    main()
