"""How well programs are ranked that were never seen: every idea a measured variant.

    .venv/bin/python -m tests.bench.quality [--variants NAME ...] [--seeds 3]

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
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby, product
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

from lib.cache.reader import Cache
from lib.files.artifacts import atomic_file
from lib.ranking.folds import folds_of
from lib.runs.stage import stage_script
from lib.settings import Settings, settings_for
from lib.settings.resolved import BUNDLED
from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS, read_dataset
from lib.training.checkpoint import Checkpoint
from lib.training.fold import load_fold, new_network, optimizer_of
from lib.training.split import of_other_collections
from tests.bench.variants import VARIANTS, Taus, Variant

ROOT = Path(__file__).resolve().parents[2]
NEVER = 10**6  # epochs between validations: but after the last epoch
SCHEMA = {
    "variant": pl.String,
    "collection": pl.String,
    "seed": pl.Int64,
    "graph": pl.String,
    "tau": pl.Float64,
    "seconds": pl.Float64,  # of all folds and of what is learned with it
}


def cache_of(chosen: Settings, data: Path, outputs: Path) -> Cache:
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


def measure(
    variant: Variant, collections: Sequence[str], seed: int, data: Path, outputs: Path
) -> dict[str, Taus]:
    """Tau of each graph, out of fold, of some collections that are learned from the same ones.

    Args:
        variant: what is measured.
        collections: whose graphs are ranked.
        seed: of folds and weights.
        data, outputs: raw data, and where their caches are made.

    Returns:
        collection -> taus.
    """
    chosen, caches = {}, {}
    for collection in variant.union(collections[0]):
        given = {"model": variant.model or "tgraph", "seed": seed, **variant.overrides}
        given |= {"also": "none"} if given["model"] == "tgraph-plus" else {}
        given["validate_every"] = NEVER
        chosen[collection] = settings_for(collection, read_dataset(data), given)
        caches[collection] = cache_of(chosen[collection], data, outputs)
    taus: dict[str, Taus] = {collection: {} for collection in collections}
    if variant.rank:
        for collection, own in taus.items():
            cache = caches[collection]
            found = variant.rank(cache, folds_of(cache.names("train", "valid"), chosen[collection]))
            own |= {name: tau for name, tau in found.items() if np.isfinite(tau)}
        return taus
    for fold in range(chosen[collections[0]].folds_total):
        for collection, own in _trained(variant, chosen, caches, fold):
            if collection in collections:
                taus[collection] |= own
    return taus


def _trained(
    variant: Variant, chosen: dict[str, Settings], caches: dict[str, Cache], fold: int
) -> Iterator[tuple[str, Taus]]:
    """(collection, taus) of a fold of some collections, after training on the others.

    ``ALSO`` of make trains a network for each collection. Those would learn from the same graphs,
    for programs of one source are the same under either search, and so are their folds, and
    no family is in both sources: one network does here for all.
    """
    every = {name: load_fold(caches[name], fold, own) for name, own in chosen.items()}
    for name, own in chosen.items():
        _check_same(every, fold, caches[name], own)
    first = next(iter(every))
    data, settings = every[first], chosen[first]
    data = replace(data, train=[graph for own in every.values() for graph in own.train])
    network = new_network(data, settings.seed, fold)
    with tempfile.TemporaryDirectory() as folder:
        file, optimizer = Path(folder) / "state.safetensors", optimizer_of(network, settings)
        checkpoint = Checkpoint(file, network, optimizer, data, "bench")
        for _ in stage_script("train").train(network, optimizer, data, fold, checkpoint):
            pass
    network.eval()
    for collection, own in every.items():
        valid = own.validate(network, whole=True)
        yield collection, {graph: one["tau"] for graph, one in valid.items()}


def _check_same(every: dict[str, Any], fold: int, cache: Cache, settings: Settings) -> None:
    """That stage 2 would learn from the same graphs of the other collections, if there are any."""
    own = settings.collection
    others = [name for name in every if name != own]
    if not others:
        return
    told = replace(settings, also=",".join(others))
    wanted = sorted(graph.name for graph in of_other_collections(cache, fold, told))
    found = sorted(g.name for name, data in every.items() if name != own for g in data.train)
    assert wanted == found, f"{own}, fold {fold}: other graphs are learned from"


def table(results: pl.DataFrame, programs: pl.DataFrame) -> str:
    """A line a variant, a column a collection: mean and standard error over seeds.

    Args:
        results: a line a graph of a variant, collection and seed.
        programs: rows of ``programs.parquet``, which have ceilings.
    """
    lines = ["| out-of-fold tau | " + " | ".join(LAYOUT_COLLECTIONS) + " | seeds | CPU min |"]
    lines.append("|---" + "|--:" * (len(LAYOUT_COLLECTIONS) + 2) + "|")
    lines.append("| ceiling, from the rounds | " + " | ".join(ceilings(programs)) + " | | |")
    for variant in VARIANTS:
        own = results.filter(variant=variant).group_by("collection", "seed")
        means = own.agg(pl.col("tau").mean(), pl.col("seconds").first())
        if len(means):
            cells = [_cell(means.filter(collection=one)["tau"]) for one in LAYOUT_COLLECTIONS]
            seeds, seconds = means["seed"].n_unique(), means["seconds"].mean()
            minutes = "" if seconds is None else f"{seconds / 60:.1f}"
            lines.append(f"| {variant} | {' | '.join(cells)} | {seeds} | {minutes} |")
    return "\n".join(lines)


def differences(
    results: pl.DataFrame, other: str, variants: Iterable[str] = tuple(VARIANTS)
) -> str:
    """A line a variant: mean difference from another's tau, by collection and over all.

    Paired by graph; a graph's difference is the mean over the seeds that both variants have.
    Errors are standard errors over graphs.
    """
    keys = ["collection", "seed", "graph"]
    pairs = results.join(results.filter(variant=other), on=keys, suffix="_other")
    each = pairs.group_by("variant", "collection", "graph").agg(
        (pl.col("tau") - pl.col("tau_other")).mean().alias("difference")
    )
    lines = [f"| against {other} | " + " | ".join([*LAYOUT_COLLECTIONS, "all"]) + " |"]
    lines.append("|---" + "|--:" * (len(LAYOUT_COLLECTIONS) + 1) + "|")
    for variant in (one for one in variants if one != other and one in each["variant"]):
        own = each.filter(variant=variant)
        parts = [*(own.filter(collection=one) for one in LAYOUT_COLLECTIONS), own]
        cells = [_difference(part["difference"]) for part in parts]
        lines.append(f"| {variant} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _difference(values: pl.Series) -> str:
    if len(values) < 2:
        return ""
    return f"{values.mean():+.3f} ± {values.std() / len(values) ** 0.5:.3f}"


def _cell(taus: pl.Series) -> str:
    if not len(taus):
        return ""
    error = f" ± {taus.std() / len(taus) ** 0.5:.3f}" if len(taus) > 1 else ""
    return f"{taus.mean():.3f}{error}"


def ceilings(programs: pl.DataFrame) -> list[str]:
    """Mean ceiling of the programs of each collection; nothing where there are none."""
    means = [programs.filter(collection=one)["ceiling"].mean() for one in LAYOUT_COLLECTIONS]
    return ["" if mean is None else f"{mean:.3f}" for mean in means]


def main() -> None:
    """Run what is missing, then print the table."""
    args = _arguments()
    torch.set_num_threads(1)
    empty = pl.DataFrame(schema=SCHEMA)
    results = pl.read_parquet(args.results) if args.results.exists() else empty
    done = set(results.select("variant", "collection", "seed").unique().iter_rows())
    for seed, name in product(range(args.seeds), [] if args.print else args.variants):
        missing = [one for one in args.collections if (name, one, seed) not in done]
        union = VARIANTS[name].union
        for _, own in groupby(sorted(missing, key=lambda one: (union(one), one)), union):
            started, collections = time.process_time(), list(own)
            found = measure(VARIANTS[name], collections, seed, args.data, args.outputs)
            seconds = time.process_time() - started
            lines = []
            for one, taus in found.items():
                print(f"{name}, {one}, seed {seed}: {np.mean([*taus.values()]):.3f}", flush=True)
                lines += [(name, one, seed, *each, seconds) for each in taus.items()]
            results = pl.concat([results, pl.DataFrame(lines, SCHEMA, orient="row")])
            with atomic_file(args.results) as temporary:
                results.write_parquet(temporary)
    programs = pl.read_parquet(args.data / "programs.parquet")
    print(table(results, programs.filter(pl.col("split") != "test")))
    if args.against:
        print(differences(results, args.against))


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
    return parser.parse_args()


if __name__ == "__main__":
    main()
