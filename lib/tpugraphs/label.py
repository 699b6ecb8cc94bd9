"""``python -m lib.tpugraphs.label RUNTIMES.csv FOLDER``: runtimes become labels of npz files.

RUNTIMES.csv has a row for each configuration of each graph, ``graph,configuration,seconds``:
configurations count from 0, in the order of the npz. FOLDER has the npz files, of layouts or of
tiles; they are replaced by labelled ones, all together, once all of them are checked. Old
normalizers of tiles, which are of another machine, are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from lib.files.artifacts import atomic_file
from lib.files.command_line import Parser
from lib.files.errors import DataError, one_line_errors
from lib.files.regular import read_regular
from lib.tpugraphs import archive
from lib.tpugraphs.npz import (
    LayoutGraph,
    TileKernel,
    read_layout,
    read_tile,
    write_layout,
    write_tile,
)

COLUMNS = {"graph": pl.String, "configuration": pl.Int64, "seconds": pl.Float64}
HEADER = ",".join(COLUMNS)
MAX_BYTES = 1 << 30  # of the table
LONGEST = 2**63 / 1e9  # seconds, of which nanoseconds are kept
SHORTEST = 1e-9


def read_runtimes(path: Path) -> dict[str, np.ndarray]:
    """Nanoseconds of each graph's configurations, (c,) int64, by graph; raises DataError if it is
    another table, a time is none, or a configuration is missing or there twice."""
    try:
        text = pl.read_csv(read_regular(path, MAX_BYTES), infer_schema=False)
    except (pl.exceptions.PolarsError, ValueError) as error:
        problem = " ".join(str(error).split())[:120]
        raise DataError(path, "table", problem, f"a CSV of {HEADER}") from None
    if text.columns != list(COLUMNS):
        raise DataError(path, "line 1", ascii(",".join(text.columns))[:80], HEADER)
    shown = pl.concat_str(pl.all().fill_null(""), separator=",").alias("shown")
    rows = text.with_columns(shown).with_row_index("line", 2).cast(COLUMNS, strict=False)
    _check(path, rows, pl.col("graph").is_not_null(), "the name of a graph")
    possible = pl.col("seconds").is_between(SHORTEST, LONGEST, closed="left")
    _check(path, rows, possible, f"seconds, from {SHORTEST:g}")
    rows = rows.sort("graph", "configuration")
    each_once = pl.col("configuration") == pl.int_range(pl.len()).over("graph")
    _check(path, rows, each_once, "each configuration 0, 1, 2 ... once")
    parts = rows.partition_by("graph", as_dict=True)
    return {
        graph: np.rint(graph_rows["seconds"].to_numpy() * 1e9).astype(np.int64)
        for (graph,), graph_rows in parts.items()
    }


def _check(path: Path, rows: pl.DataFrame, good: pl.Expr, expected: str) -> None:
    """Raise a DataError that names the first row of which ``good`` does not hold."""
    bad = rows.filter(~good.fill_null(False)).head(1)
    if len(bad):
        raise DataError(path, f"line {bad['line'][0]}", ascii(bad["shown"][0])[:80], expected)


def labelled(path: Path, runtimes: np.ndarray, source: Path) -> LayoutGraph | TileKernel:
    """The graph or kernel of an npz with other runtimes, (c,) nanoseconds; raises DataError if it
    is damaged, or has another number of configurations."""
    with archive.opened(path) as file:
        read = read_tile if "config_feat" in file else read_layout
    graph = read(path, measured=False)
    if len(graph.config_runtime) != len(runtimes):
        actual = f"configurations 0 to {len(runtimes) - 1}"
        raise DataError(source, graph.name, actual, f"the {len(graph.config_runtime)} of {path}")
    if isinstance(graph, LayoutGraph):
        return replace(graph, config_runtime=runtimes)
    none = np.zeros_like(runtimes)
    return replace(graph, config_runtime=runtimes, config_runtime_normalizers=none)


def label(source: Path, folder: Path) -> str:
    """Put the runtimes of a table into the npz files of a folder; returns what was done, in words;
    raises UserError if a file is missing, or anything is wrong with one; then none is changed."""
    runtimes = read_runtimes(source)
    paths = {name: folder / f"{name}.npz" for name in runtimes}
    for name, path in paths.items():
        if Path(name).name != name or not path.is_file():
            raise DataError(source, "graph", ascii(name)[:80], f"a file {folder}/<graph>.npz")
    with ExitStack() as complete:
        for name, path in paths.items():
            graph = labelled(path, runtimes[name], source)
            write = write_layout if isinstance(graph, LayoutGraph) else write_tile
            write(complete.enter_context(atomic_file(path)), graph)
    absent = sorted({path.stem for path in folder.glob("*.npz")} - set(paths))
    left = f"; not in the table: {', '.join(absent[:8])}" if absent else ""
    more = f" and {len(absent) - 8} more" if len(absent) > 8 else ""
    total = sum(map(len, runtimes.values()))
    return f"label: {len(paths)} graphs, {total:,} configurations in {folder}{left}{more}"


@one_line_errors()
def main(argv: Sequence[str] | None = None) -> None:
    """The command line; errors are one line on standard error and exit code 2."""
    parser = Parser(prog="python -m lib.tpugraphs.label", description=__doc__)
    parser.add_argument("source", metavar="RUNTIMES.csv", type=Path, help=HEADER)
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="of npz files")
    args = parser.parse_args(argv)
    print(label(args.source, args.folder))


if __name__ == "__main__":
    main()
