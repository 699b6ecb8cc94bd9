"""Table 1 of the GST thesis on the bundled collections: its methods and TGraph, over seeds.

.venv/bin/python -m tests.bench.thesis [--seeds 3] [--folds 5] [--collections NAME ...]

Runs the real stages under ``<outputs>``, one collection, model and seed after another, and after
each writes ``thesis.parquet`` beside this file (``--results``): ``collection, model, seed, section,
graph, tau, seconds``, the last of training, all folds together. What is there is not run again, so
that it can be killed and started anew; move it away when the data or a model have changed.
``--print`` prints the tables of what is there. Errors are standard errors over seeds of the mean
over graphs; ``--against MODEL`` prints differences from a model, paired by graph, with standard
errors over graphs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl

from lib.files.artifacts import atomic_file, read_json
from lib.settings import MODELS
from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS
from tests.bench.quality_tables import differences

ROOT = Path(__file__).resolve().parents[2]
METHODS = ("gst", "pooling", "partitioning", "gat", "tgraph")
SECTIONS = ("validation", "test")
SCHEMA = {
    "collection": pl.String,
    "model": pl.String,
    "seed": pl.Int64,
    "section": pl.String,
    "graph": pl.String,
    "tau": pl.Float64,
    "seconds": pl.Float64,
}


def run(collection: str, model: str, seed: int, folds: int, outputs: Path) -> Path:
    """Run all stages; returns the folder with the metrics."""
    common = ["--collection", collection, "--model", model, "--seed", seed, "--outputs", outputs]
    every = [("01_preprocess.py",)]
    for fold in range(folds):
        every += [("02_train.py", "--fold", fold), ("03_infer.py", "--fold", fold)]
    every.append(("04_ensemble.py", "--folds", folds))
    for script, *flags in every:
        line = [sys.executable, ROOT / script, *common, *flags]
        environment = {**os.environ, "WANDB_MODE": "disabled"}
        subprocess.run([*map(str, line)], cwd=ROOT, env=environment, check=True)
    chosen = MODELS["layout"][model](collection=collection)
    return outputs / chosen.results


def rows_of(folder: Path, collection: str, model: str, seed: int) -> pl.DataFrame:
    """Each graph's tau, from the metrics of stage 4, and the time in epochs, from stage 2."""
    metrics = read_json(folder / "metrics.json")
    histories = [pl.read_parquet(path) for path in folder.glob("fold_*/history.parquet")]
    seconds = float(sum(history["seconds"].sum() for history in histories))
    rows = [
        (collection, model, seed, section, graph, one["tau"], seconds)
        for section in SECTIONS
        for graph, one in metrics[section].get("graphs", {}).items()
    ]
    return pl.DataFrame(rows, SCHEMA, orient="row")


def table(found: pl.DataFrame, section: str) -> str:
    """A row a model, a column a collection: mean and standard error over seeds."""
    means = (
        found.filter(pl.col("section") == section)
        .group_by("collection", "model", "seed")
        .agg(pl.col("tau").mean())
    )
    lines = [f"| {section} | " + " | ".join(LAYOUT_COLLECTIONS) + " |"]
    lines.append("|---" + "|--:" * len(LAYOUT_COLLECTIONS) + "|")
    for model in METHODS:
        cells = []
        for collection in LAYOUT_COLLECTIONS:
            own = means.filter(collection=collection, model=model)["tau"].to_numpy()
            error = np.std(own, ddof=1) / len(own) ** 0.5 if len(own) > 1 else np.nan
            shown = f"{own.mean():.3f} ± {error:.3f}" if len(own) > 1 else f"{own.sum():.3f}"
            cells.append(shown if len(own) else "-")
        lines.append(f"| {model} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--collections", nargs="+", default=LAYOUT_COLLECTIONS)
    parser.add_argument("--outputs", type=Path, default=Path("outputs/thesis"))
    parser.add_argument("--results", type=Path, default=Path(__file__).with_suffix(".parquet"))
    parser.add_argument("--print", action="store_true", help="print what is there, run nothing")
    parser.add_argument("--against", choices=METHODS, metavar="MODEL")
    args = parser.parse_args()
    found = pl.read_parquet(args.results) if args.results.exists() else pl.DataFrame(schema=SCHEMA)
    wanted = [
        (collection, model, seed)
        for seed in range(args.seeds)  # first every model once
        for collection in args.collections
        for model in METHODS
    ]
    done = set(found.select("collection", "model", "seed").unique().iter_rows())
    for one in [] if args.print else [one for one in wanted if one not in done]:
        collection, model, seed = one
        folder = run(collection, model, seed, args.folds, args.outputs / f"seed_{seed}")
        found = pl.concat([found, rows_of(folder, collection, model, seed)])
        with atomic_file(args.results) as temporary:
            found.write_parquet(temporary)
    for section in SECTIONS:
        print(table(found, section))
        if args.against:
            own = found.filter(section=section).rename({"model": "variant"})
            print(differences(own, args.against, METHODS))


if __name__ == "__main__":
    main()
