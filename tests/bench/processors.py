"""How far two processors agree on the order of the same configurations.

    .venv/bin/python -m tests.bench.processors RAW [DATASET]

``RAW`` is a folder of ``python -m lib.collect.xla --output RAW --random 48 --genetic 0``, measured
on this machine: of programs that ``DATASET`` has too, the collector draws the same configurations.
Printed for each program, and as a mean: Kendall's tau between the two labels of the configurations
that both have, and the ceilings of both measurements. Were the processors alike, the tau would lie
between the ceilings.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import polars as pl

from lib.collect.xla.export import raw_files
from lib.collect.xla.exported import read_exported
from lib.collect.xla.hlo import Measurements, read_raw
from lib.ranking.metrics import kendall_tau
from lib.ranking.rounds import ceiling
from lib.settings.resolved import BUNDLED


def agreement(one: Measurements, other: Measurements) -> tuple[int, float, float, float] | None:
    """How many configurations both have, tau between their labels, and both ceilings; ``None`` if
    they have none in common."""
    places = {own.tobytes(): place for place, own in enumerate(other.configuration)}
    keys = [own.tobytes() for own in one.configuration.astype(other.configuration.dtype)]
    pairs = [(place, places[key]) for place, key in enumerate(keys) if key in places]
    if not pairs:
        return None
    here, there = np.array(pairs).T
    tau = kendall_tau(one.runtime[here], other.runtime[there])
    return len(pairs), tau, ceiling(one.rounds), ceiling(other.rounds)


def main() -> None:
    """Print a line a program, and the means."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("raw", type=Path)
    parser.add_argument("dataset", type=Path, nargs="?", default=BUNDLED)
    args = parser.parse_args()
    known = {(m.source, m.search, m.program): m for m in read_exported(args.dataset)}
    rows = []
    for one in (m for path in raw_files(args.raw) for m in read_raw(path)):
        other = known.get((one.source, one.search, one.program))
        if other is None or one.search != "random":
            continue
        if (found := agreement(one, other)) is not None:
            rows.append((one.program, *found))
    if not rows:
        raise SystemExit(f"{args.raw}: no configuration that {args.dataset} has too")
    names = ("program", "configurations", "tau", "ceiling here", "ceiling there")
    table = pl.DataFrame(rows, schema=list(names), orient="row")
    with pl.Config(tbl_rows=-1, tbl_hide_dataframe_shape=True, fmt_str_lengths=60):
        print(table.with_columns(pl.col(pl.Float64).round(3)))
    print(table.select(pl.col(pl.Float64).mean().round(3)).row(0, named=True))


if __name__ == "__main__":
    main()
