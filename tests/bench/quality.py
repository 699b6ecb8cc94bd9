"""How well programs are ranked that were never seen: every idea a measured row.

    .venv/bin/python -m tests.bench.quality [--rows NAME ...] [--seeds 3] [--curve FILE.svg]

Out-of-fold tau: the training and validation programs of each bundled collection are dealt to five
folds, families whole; a network is trained on four and judged on the fifth, five times, so that
every program is ranked once by a network that has seen none of its family. Another seed deals
other folds and draws other weights. Test programs are not opened.

What was measured is kept in ``quality.parquet`` beside this file, a line for each graph of each
(row, collection, seed); what is there is not run again, so that it can be killed and started anew.
Move it away when the data or a model have changed. ``--print`` runs nothing. Means are over
programs, errors are standard errors over seeds; ``--against ROW`` prints each row's difference from
another, paired by graph and seed, with its standard error over programs. Caches are made under
``<outputs>``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import polars as pl
import torch
from torch import nn

from lib.artifacts import atomic_file
from lib.baseline import moved_bytes
from lib.cache.reader import Cache
from lib.folds import folds_of
from lib.layouts.locality import LOCALITY_FEATURES
from lib.layouts.rows import CHAIN_FEATURES, MOVE_BASICS, STATE_BASICS
from lib.metrics import kendall_tau
from lib.model import build_network
from lib.settings import BUNDLED, BUNDLED_VALUES, MODELS, SMALL_BY_MODEL
from lib.train.kinds import load_fold
from lib.train.loop import FoldTraining, new_network
from tests.bench.summed import boosting, ridge

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = {
    "row": pl.String,
    "collection": pl.String,
    "seed": pl.Int64,
    "graph": pl.String,
    "tau": pl.Float64,
    "seconds": pl.Float64,  # of training, all folds together
}
Taus = dict[str, float]


@dataclass(frozen=True)
class Row:
    """A way to rank: a model with its settings, or a function that needs no stage 2.

    Attributes:
        model: of ``lib.settings.MODELS``; "" if ``rank`` does it all.
        overrides: settings other than the bundled ones.
        change: what is done to the fresh network.
        edges: whether the network gets them.
        rank: (cache, fold of each graph) -> tau of each graph.
        share: of each fold's training graphs that are learned from, drawn with the seed.
    """

    model: str = ""
    overrides: dict[str, Any] = field(default_factory=dict)
    change: Callable[[nn.Module], None] | None = None
    edges: bool = True
    rank: Callable[[Cache, dict[str, int]], Taus] | None = None
    share: float = 1.0


def by_baseline(cache: Cache, folds: dict[str, int]) -> Taus:
    """What needs no learning."""
    graphs = {name: cache.graph(name) for name in folds}
    return {name: kendall_tau(moved_bytes(g), g.runtime) for name, g in graphs.items()}


def without_channel_attention(network: nn.Module) -> None:
    """Gates that are open and stay so, so that the compiled loops still do."""
    for block in network.blocks:
        last = block.channel_attention.squeeze
        nn.init.zeros_(last.weight)
        nn.init.constant_(last.bias, 30.0)  # sigmoid: 1
        block.channel_attention.requires_grad_(False)


def without_cross_attention(network: nn.Module) -> None:
    """Attention that weighs all configurations alike, whatever they are."""
    for block in network.blocks:
        nn.init.constant_(block.cross_attention.log_temperature, 20.0)
        block.cross_attention.requires_grad_(False)


def without_locality(network: nn.Module) -> None:
    """Nothing of caches: their features are standardized to zero."""
    network.inputs.moves.factor[MOVE_BASICS : MOVE_BASICS + LOCALITY_FEATURES] = 0


def without_chains(network: nn.Module) -> None:
    """Nothing of what is computed on the way."""
    first = MOVE_BASICS + LOCALITY_FEATURES
    network.inputs.moves.factor[first : first + CHAIN_FEATURES] = 0
    network.inputs.states.factor[STATE_BASICS : STATE_BASICS + CHAIN_FEATURES] = 0


SHARES = (0.125, 0.25, 0.5, 0.75)  # of the learning curve, and all
ROWS: dict[str, Row] = {
    "moved bytes, no learning": Row(rank=by_baseline),
    "ridge on summed slots": Row(rank=ridge),
    "boosting on summed slots": Row(rank=boosting),
    "tgraph": Row("tgraph"),
    "tgraph, 60 epochs": Row("tgraph", {"epochs": 60}),
    "tgraph, 110 epochs": Row("tgraph", {"epochs": 110}),
    "tgraph without channel attention": Row("tgraph", change=without_channel_attention),
    "tgraph without cross attention": Row("tgraph", change=without_cross_attention),
    "tgraph without edges": Row("tgraph", edges=False),
    "gst": Row("gst"),
    "tgraph-plus": Row("tgraph-plus"),
    "tgraph-plus, layouts that spread": Row("tgraph-plus", {"reach": "spread"}),
    "tgraph-plus without caches": Row("tgraph-plus", change=without_locality),
    "tgraph-plus without chains": Row("tgraph-plus", change=without_chains),
    "tgraph-plus, one member": Row("tgraph-plus", {"members": 1}),
    "tgraph-plus, 64 channels": Row("tgraph-plus", {"channels": 64}),
    "tgraph-plus, hinge": Row("tgraph-plus", {"loss": "hinge"}),
    "tgraph-plus, no dropout": Row("tgraph-plus", {"dropout": 0.0}),
    "tgraph-plus, 60 epochs": Row("tgraph-plus", {"epochs": 60}),
    "tgraph-plus, pruned graph": Row("tgraph-plus", {"hops": 1}),
    **{
        f"tgraph-plus, {share:.1%} of the programs": Row("tgraph-plus", share=share)
        for share in SHARES
    },
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


def measure(row: Row, collection: str, seed: int, data: Path, outputs: Path) -> Taus:
    """Tau of each graph, out of fold."""
    model = row.model or "tgraph"
    values = {**BUNDLED_VALUES[collection], **SMALL_BY_MODEL.get(model, {}), **row.overrides}
    never = {"validate_every": 10**6}  # but after the last epoch
    chosen = MODELS["layout"][model](collection, seed=seed, **{**values, **never})
    cache = cache_of(chosen, data, outputs)
    if row.rank:
        found = row.rank(cache, folds_of(cache.names("train", "valid"), chosen))
        return {name: tau for name, tau in found.items() if np.isfinite(tau)}
    found = {}
    for fold in range(chosen.folds_total):
        graphs = _shared(load_fold(cache, fold, chosen), row.share, seed, fold)
        if not row.edges:
            for graph in (*graphs.train, *graphs.valid):
                graph.tensors.sources.resize_(0)
                graph.tensors.pointers.zero_()
        network = new_network(lambda: build_network(chosen), graphs, seed, fold)
        if row.change:
            row.change(network)
        training = FoldTraining(network, graphs, chosen, fold)
        with tempfile.TemporaryDirectory() as folder:
            for _ in training.run(Path(folder) / "state.safetensors", "bench"):
                pass
        found |= training.progress.last["graphs"]
    return found


def _shared(graphs: Any, share: float, seed: int, fold: int) -> Any:
    """The fold with a share of its training graphs, at least one."""
    if share == 1:
        return graphs
    count = max(1, round(share * len(graphs.train)))
    drawn = np.random.default_rng([seed, fold]).permutation(len(graphs.train))[:count]
    return replace(graphs, train=[graphs.train[index] for index in sorted(drawn)])


def draw_curve(found: pl.DataFrame, path: Path) -> None:
    """Out-of-fold tau against the number of programs learned from, a line a collection."""
    matplotlib.rcParams["svg.hashsalt"] = "tgraph"  # the same numbers, the same bytes
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    for place, collection in enumerate(BUNDLED_VALUES):
        own = found.filter(collection=collection)
        programs = own.filter(row="tgraph-plus")["graph"].n_unique() * 4 / 5  # four folds of five
        points = []
        for share in (*SHARES, 1.0):
            name = "tgraph-plus" if share == 1 else f"tgraph-plus, {share:.1%} of the programs"
            means = own.filter(row=name).group_by("seed").agg(pl.col("tau").mean())["tau"]
            if len(means) > 1:
                points.append((share * programs, means.mean(), means.std() / len(means) ** 0.5))
        if points:
            counts, taus, errors = zip(*points, strict=True)
            colour = f"C{place}"
            axes.errorbar(
                counts, taus, errors, marker="o", capsize=3, color=colour, label=collection
            )
            baseline = own.filter(row="moved bytes, no learning")["tau"].mean()
            axes.axhline(baseline, color=colour, linestyle=":", linewidth=1)
    axes.set_xscale("log", base=2)
    axes.set_xlabel("training programs (dotted: no learning)")
    axes.set_ylabel("out-of-fold tau of tgraph-plus")
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    with atomic_file(path) as temporary:
        figure.savefig(temporary, format="svg", metadata={"Date": None})
    plt.close(figure)


def table(found: pl.DataFrame, data: Path) -> str:
    """A line a row, a column a collection: mean and standard error over seeds."""
    lines = ["| out-of-fold tau | " + " | ".join(BUNDLED_VALUES) + " | seeds | CPU min |"]
    lines.append("|---" + "|--:" * (len(BUNDLED_VALUES) + 2) + "|")
    lines.append("| ceiling, from the rounds | " + " | ".join(ceilings(data)) + " | | |")
    for row in ROWS:
        own = found.filter(row=row).group_by("collection", "seed")
        means = own.agg(pl.col("tau").mean(), pl.col("seconds").first())
        if len(means):
            cells = [_cell(means.filter(collection=one)["tau"]) for one in BUNDLED_VALUES]
            seeds, minutes = means["seed"].n_unique(), means["seconds"].mean() / 60
            lines.append(f"| {row} | {' | '.join(cells)} | {seeds} | {minutes:.1f} |")
    return "\n".join(lines)


def differences(found: pl.DataFrame, other: str, rows: Iterable[str] = tuple(ROWS)) -> str:
    """A line a row: mean difference from another row's tau, by collection and over all.

    Paired by graph; a graph's difference is the mean over the seeds that both rows have. Errors are
    standard errors over graphs.
    """
    keys = ["collection", "seed", "graph"]
    pairs = found.join(found.filter(row=other), on=keys, suffix="_other")
    each = pairs.group_by("row", "collection", "graph").agg(
        (pl.col("tau") - pl.col("tau_other")).mean().alias("difference")
    )
    lines = [f"| against {other} | " + " | ".join([*BUNDLED_VALUES, "all"]) + " |"]
    lines.append("|---" + "|--:" * (len(BUNDLED_VALUES) + 1) + "|")
    for row in (row for row in rows if row != other and row in each["row"]):
        own = each.filter(row=row)
        parts = [*(own.filter(collection=one) for one in BUNDLED_VALUES), own]
        cells = [_difference(part["difference"]) for part in parts]
        lines.append(f"| {row} | {' | '.join(cells)} |")
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


def ceilings(data: Path) -> list[str]:
    """Mean ceiling of the training and validation programs of each collection."""
    programs = pl.read_parquet(data / "programs.parquet").filter(pl.col("split") != "test")
    means = programs.group_by("collection").agg(pl.col("ceiling").mean())
    return [f"{means.filter(collection=one)['ceiling'].item():.3f}" for one in BUNDLED_VALUES]


def main() -> None:
    """Run what is missing, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", nargs="+", default=list(ROWS), choices=list(ROWS), metavar="ROW")
    parser.add_argument("--collections", nargs="+", default=list(BUNDLED_VALUES))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=BUNDLED)
    parser.add_argument("--outputs", type=Path, default=Path("outputs/quality"))
    parser.add_argument("--results", type=Path, default=Path(__file__).with_suffix(".parquet"))
    parser.add_argument("--against", choices=list(ROWS), metavar="ROW", help="print differences")
    parser.add_argument("--print", action="store_true", help="print what is there, run nothing")
    parser.add_argument("--curve", type=Path, help="draw the learning curve here, as SVG")
    args = parser.parse_args()
    torch.set_num_threads(1)
    path = args.results
    found = pl.read_parquet(path) if path.exists() else pl.DataFrame(schema=SCHEMA)
    done = set(found.select("row", "collection", "seed").unique().iter_rows())
    every = [(r, c, s) for s in range(args.seeds) for r in args.rows for c in args.collections]
    for row, collection, seed in [] if args.print else [one for one in every if one not in done]:
        started = time.process_time()
        taus = measure(ROWS[row], collection, seed, args.data, args.outputs)
        seconds = time.process_time() - started
        print(f"{row}, {collection}, seed {seed}: {np.mean([*taus.values()]):.3f}", flush=True)
        lines = [(row, collection, seed, graph, tau, seconds) for graph, tau in taus.items()]
        found = pl.concat([found, pl.DataFrame(lines, SCHEMA, orient="row")])
        with atomic_file(path) as temporary:
            found.write_parquet(temporary)
    print(table(found, args.data))
    if args.against:
        print(differences(found, args.against))
    if args.curve:
        draw_curve(found, args.curve)


if __name__ == "__main__":
    main()
