"""How well programs are ranked that were never seen: every idea a measured variant.

    .venv/bin/python -m tests.bench.quality [--variants NAME ...] [--seeds 3] [--curve FILE.svg]

Out-of-fold tau: the training and validation programs of each bundled collection are dealt to five
folds, families whole; a network is trained on four and judged on the fifth, five times, so that
every program is ranked once by a network that has seen none of its family. Another seed deals
other folds and draws other weights. Test programs are not opened.

What was measured is kept in ``quality.parquet`` beside this file, a line for each graph of each
(variant, collection, seed); what is there is not run again, so that it can be killed and started
anew. Move it away when the data or a model have changed. ``--print`` runs nothing. Means are over
programs, errors are standard errors over seeds; ``--against VARIANT`` prints each variant's
difference from another, paired by graph and seed, with its standard error over programs. Caches are
made under ``<outputs>``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from lib.cache.reader import Cache
from lib.files.artifacts import atomic_file
from lib.inputs.kinds import network_for
from lib.ranking.folds import folds_of
from lib.settings import BUNDLED, LAYOUT_COLLECTIONS, settings_for
from lib.tpugraphs.dataset import read_dataset
from lib.train.kinds import load_fold
from lib.train.loop import FoldTraining, new_network
from tests.bench.quality_tables import differences, draw_curve, table
from tests.bench.variants import VARIANTS, Taus, Variant

ROOT = Path(__file__).resolve().parents[2]
NEVER = 10**6  # epochs between validations: but after the last epoch
SCHEMA = {
    "variant": pl.String,
    "collection": pl.String,
    "seed": pl.Int64,
    "graph": pl.String,
    "tau": pl.Float64,
    "seconds": pl.Float64,  # of training, all folds together
}


def cache_of(chosen: Any, data: Path, outputs: Path) -> Cache:
    """The cache of a model's settings, made if need be."""
    flags = {"collection": chosen.collection, "model": chosen.model, "hops": chosen.hops}
    flags |= {"data": data, "outputs": outputs}
    line = [sys.executable, ROOT / "01_preprocess.py"]
    line += [word for name, value in flags.items() for word in (f"--{name}", value)]
    folder = outputs / chosen.cache
    if not (folder / "manifest.json").exists():
        environment = {**os.environ, "WANDB_MODE": "disabled"}
        subprocess.run([*map(str, line)], cwd=ROOT, env=environment, check=True)
    return Cache(folder)


def measure(variant: Variant, collection: str, seed: int, data: Path, outputs: Path) -> Taus:
    """Tau of each graph, out of fold."""
    given = {"model": variant.model or "tgraph", "seed": seed, **variant.overrides}
    chosen = settings_for(collection, read_dataset(data), given | {"validate_every": NEVER})
    cache = cache_of(chosen, data, outputs)
    if variant.rank:
        taus = variant.rank(cache, folds_of(cache.names("train", "valid"), chosen))
        return {name: tau for name, tau in taus.items() if np.isfinite(tau)}
    taus = {}
    for fold in range(chosen.folds_total):
        taus |= _train(variant, chosen, cache, fold)
    return taus


def _train(variant: Variant, chosen: Any, cache: Cache, fold: int) -> Taus:
    """Tau of each graph of a fold, after training on the others."""
    graphs = _shared(load_fold(cache, fold, chosen), variant.share, chosen.seed, fold)
    network = new_network(lambda: network_for(chosen), graphs, chosen.seed, fold)
    if variant.change:
        variant.change(network)
    training = FoldTraining(network, graphs, chosen, fold)
    with tempfile.TemporaryDirectory() as folder:
        for _ in training.run(Path(folder) / "state.safetensors", "bench"):
            pass
    return training.progress.last["graphs"]


def _shared(graphs: Any, share: float, seed: int, fold: int) -> Any:
    """The fold with a share of its training graphs, at least one."""
    if share == 1:
        return graphs
    count = max(1, round(share * len(graphs.train)))
    drawn = np.random.default_rng([seed, fold]).permutation(len(graphs.train))[:count]
    return replace(graphs, train=[graphs.train[index] for index in sorted(drawn)])


def main() -> None:
    """Run what is missing, then print the table."""
    args = _arguments()
    torch.set_num_threads(1)
    empty = pl.DataFrame(schema=SCHEMA)
    results = pl.read_parquet(args.results) if args.results.exists() else empty
    done = set(results.select("variant", "collection", "seed").unique().iter_rows())
    wanted = product(range(args.seeds), args.variants, args.collections)
    for seed, name, collection in [] if args.print else wanted:
        if (name, collection, seed) in done:
            continue
        started = time.process_time()
        taus = measure(VARIANTS[name], collection, seed, args.data, args.outputs)
        seconds = time.process_time() - started
        print(f"{name}, {collection}, seed {seed}: {np.mean([*taus.values()]):.3f}", flush=True)
        lines = [(name, collection, seed, graph, tau, seconds) for graph, tau in taus.items()]
        results = pl.concat([results, pl.DataFrame(lines, SCHEMA, orient="row")])
        with atomic_file(args.results) as temporary:
            results.write_parquet(temporary)
    print(table(results, args.data))
    if args.against:
        print(differences(results, args.against))
    if args.curve:
        draw_curve(results, args.curve)


def _arguments() -> argparse.Namespace:
    every = list(VARIANTS)
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--variants", nargs="+", default=every, choices=every, metavar="VARIANT")
    parser.add_argument("--collections", nargs="+", default=LAYOUT_COLLECTIONS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=BUNDLED)
    parser.add_argument("--outputs", type=Path, default=Path("outputs/quality"))
    parser.add_argument("--results", type=Path, default=Path(__file__).with_suffix(".parquet"))
    parser.add_argument("--against", choices=every, metavar="VARIANT", help="print differences")
    parser.add_argument("--print", action="store_true", help="print what is there, run nothing")
    parser.add_argument("--curve", type=Path, help="draw the learning curve here, as SVG")
    return parser.parse_args()


if __name__ == "__main__":
    main()
