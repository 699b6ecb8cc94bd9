"""How far two processors agree on the order of the same configurations.

    .venv/bin/python -m tests.bench.processors outputs/xla-cpu [DATASET]

The first is a dataset that ``make collect`` wrote on this machine. Printed for each program that
``DATASET`` has too, and as a mean: Kendall's tau between the two labels of the configurations that
both have, and the ceilings of both measurements. Were the processors alike, the tau would lie
between the ceilings.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from lib.ranking.metrics import kendall_tau
from lib.ranking.rounds import ceiling, label
from lib.settings.resolved import BUNDLED
from lib.tpugraphs.dataset import MEASUREMENTS
from lib.tpugraphs.npz import read_layout

Measured = dict[bytes, list[int]]  # the rounds of each configuration


def measured_in(root: Path) -> dict[tuple[str, str], Measured]:
    """The random configurations of each graph of a dataset, by collection and graph."""
    table = pl.read_parquet(root / MEASUREMENTS).filter(
        pl.col("collection").str.ends_with("random")
    )
    found: dict[tuple[str, str], Measured] = {}
    for (collection, split, graph), rows in table.group_by("collection", "split", "graph"):
        place = root / "npz" / Path(*str(collection).split("-"))
        features = read_layout(place / str(split) / f"{graph}.npz").node_config_feat
        rounds = rows.sort("config")["rounds"].to_list()
        keys = [one.astype(np.int8).tobytes() for one in features]
        found[str(collection), str(graph)] = dict(zip(keys, rounds, strict=True))
    return found


def main() -> None:
    """Print a line a program, and the means."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("measured", type=Path)
    parser.add_argument("dataset", type=Path, nargs="?", default=BUNDLED)
    args = parser.parse_args()
    here, there = measured_in(args.measured), measured_in(args.dataset)
    rows = []
    for key in sorted(here.keys() & there.keys()):
        both = [own for own in here[key] if own in there[key]]
        if len(both) > 1:
            one, other = (np.array([m[key][own] for own in both]) for m in (here, there))
            tau = kendall_tau(label(one), label(other))
            rows.append((key[1], len(both), tau, ceiling(one), ceiling(other)))
    if not rows:
        raise SystemExit(f"{args.measured}: no configuration that {args.dataset} has too")
    names = ("program", "configurations", "tau", "ceiling here", "ceiling there")
    table = pl.DataFrame(rows, schema=list(names), orient="row")
    with pl.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True, fmt_str_lengths=60):
        print(table.with_columns(pl.col(pl.Float64).round(3)))
    print(table.select(pl.col(pl.Float64).mean().round(3)).row(0, named=True))


if __name__ == "__main__":
    main()
