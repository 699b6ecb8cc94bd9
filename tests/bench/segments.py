"""Peak memory and time of a training step against the size of the graph: GST and full GAT.

.venv/bin/python -m tests.bench.segments [--configurations 16] [--limit 2.0]

Each measurement is a process of its own. Memory is the highest resident size during the steps,
less what the process had before the first one: imports and the cache's table are not counted, the
graph's own arrays are. GST's first step computes every segment (nothing is in the historical table
yet), later ones read all but the trained segments from it; both are timed, and the peak is over
all of them. Exits with 1 if GST at 50,000 nodes takes more than 1.3 times what it takes at 10,000,
or if full attention stays under the limit.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lib.cache.reader import Cache
from lib.cache.writer import CacheWriter
from lib.files.named import named
from lib.settings import MODELS
from lib.training.fold import Fold, new_network
from tests.bench.case import Shape, program_graph

SIZES = (1000, 2000, 5000, 10_000, 20_000, 50_000)
MODELS_MEASURED = ("gst", "gat")
COLLECTION = "layout-xla-random"
STEPS = 3
FLAT = 1.3  # largest ratio of GST's memory, 50,000 nodes to 10,000


def measure(model: str, folder: Path, configurations: int) -> dict[str, Any]:
    """Take some steps on the graph of a cache, in this process."""
    torch.set_num_threads(1)
    own = {"segment_nodes": 1024, "trained_segments": 1} if model == "gst" else {}
    settings = MODELS["layout"][model](COLLECTION, configurations=configurations, **own)
    fold = named(settings.fold)(["g"], [], settings, Cache(folder / "cache"))
    network = new_network(fold, 0, 0)
    before = resident("VmRSS:")
    Path("/proc/self/clear_refs").write_text("5")  # the peak counts from here
    seconds = [timed_epoch(network, fold, number) for number in range(STEPS)]
    return {"memory": resident("VmHWM:") - before, "first": seconds[0], "later": min(seconds[1:])}


def write_cache(folder: Path, nodes: int, configurations: int) -> None:
    """A cache with one graph; one node in twenty is configurable."""
    graph = program_graph(Shape(nodes, nodes // 20, configurations), configurations)
    folder.mkdir()
    with CacheWriter(folder) as writer:
        writer.add(type(graph)(**{**vars(graph), "name": "g"}), {})
        writer.finish({"fingerprint": "bench", "settings": {}})


def timed_epoch(network: torch.nn.Module, fold: Fold, number: int) -> float:
    """Seconds of one step: an epoch of one graph, without validation."""
    started, generator = time.perf_counter(), np.random.default_rng(number)
    for group in fold.groups(generator):
        batch = fold.draw(group, generator, 0.5)
        network.zero_grad(set_to_none=True)
        fold.loss(fold.forward(network, batch), batch).backward()
        fold.after_step()
    return time.perf_counter() - started


def resident(name: str) -> int:
    """Bytes: resident now (VmRSS) or at most (VmHWM)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


def main() -> None:
    """Measure every model and size, print a table, and say whether memory stays flat."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--configurations", type=int, default=16)
    parser.add_argument("--limit", type=float, default=2.0, help="GB that full GAT must cross")
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(args.one[0], Path(args.one[1]), args.configurations)))
        return
    print("| model | nodes | peak MB | first step s | later steps s |")
    print("|---|--:|--:|--:|--:|", flush=True)
    peaks = {}
    for model in MODELS_MEASURED:
        for nodes in SIZES:
            line = [sys.executable, "-m", "tests.bench.segments"]
            line += ["--configurations", str(args.configurations)]
            with tempfile.TemporaryDirectory() as folder:
                write_cache(Path(folder) / "cache", nodes, args.configurations)
                line += ["--one", model, folder]
                done = subprocess.run(line, capture_output=True, text=True, check=True)
            one = json.loads(done.stdout.splitlines()[-1])
            peaks[model, nodes] = one["memory"]
            cells = f"{one['memory'] / 1e6:,.0f} | {one['first']:.2f} | {one['later']:.2f}"
            print(f"| {model} | {nodes:,} | {cells} |", flush=True)
    ratio = peaks["gst", 50_000] / peaks["gst", 10_000]
    crossed = [nodes for nodes in SIZES if peaks["gat", nodes] > args.limit * 1e9]
    first = f"{crossed[0]:,} nodes" if crossed else "no size"
    print(f"GST at 50,000 nodes takes {ratio:.2f} times what it takes at 10,000; "
          f"full attention crosses {args.limit:g} GB at {first}")  # fmt: skip
    sys.exit(ratio > FLAT or not crossed)


if __name__ == "__main__":
    main()
