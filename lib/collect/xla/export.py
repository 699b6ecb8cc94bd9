"""From raw measurements to a dataset in the official form, with its tables and its README.

``python -m lib.collect.xla.export outputs/collect data/xla-cpu`` needs no JAX. What it writes is a
pure function of the raw files: the same files give the same bytes. A dataset that it has written
can stand for raw files, so that two datasets become one.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl

from lib.collect.xla.about import dataset, readme
from lib.collect.xla.exported import GRAPHS, read_exported
from lib.collect.xla.families import joined, named, settled_families
from lib.collect.xla.hlo import SEARCHES, Measurements, read_raw
from lib.collect.xla.operations import COLUMN
from lib.collect.xla.splits import assign_splits, settled_splits
from lib.files.artifacts import TEMPORARY, atomic_file, atomic_folder, remove_leftovers
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.files.parquet import write_parquet
from lib.ranking.rounds import ceiling
from lib.tpugraphs.dataset import FILE, dataset_text
from lib.tpugraphs.npz import LayoutGraph, write_layout

SOURCES = ("xla", "nlp")
SAID_ONCE = ("jax", "xla_flags", "round_seconds", "quiet_lock")  # by all graphs alike, most often
FEWEST = {"random": 48, "default": 32}  # configurations that a program should have


def tables(
    measured: Sequence[Measurements], splits: dict[tuple[str, str], str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """``measurements.parquet``, a row a configuration, and ``programs.parquet``, a row a graph."""
    trained = {(m.source, m.family) for m in measured if splits[m.source, m.name] == "train"}
    rows, programs = [], []
    for measurements in measured:
        runtime, hashes = measurements.runtime, measurements.optimized_hash
        rounds = measurements.rounds.tolist()
        base = runtime[(measurements.configuration == -1).all((1, 2))]
        split = splits[measurements.source, measurements.name]
        key = {"collection": measurements.collection, "split": split, "graph": measurements.name}
        rows += [
            {**key, "config": k, "runtime": t, "rounds": [r for r in rs if r], "optimized_hash": h}
            for k, (t, rs, h) in enumerate(zip(runtime.tolist(), rounds, hashes, strict=True))
        ]
        programs.append(
            {
                **key,
                "family": measurements.family,
                "family_in_training": (measurements.source, measurements.family) in trained,
                "nodes": len(measurements.graph.node_opcode),
                "sites": len(measurements.nodes),
                "configurations": len(runtime),
                "base_ms": base.min() / 1e6 if len(base) else None,
                "spread": runtime.max() / runtime.min(),
                "ceiling": ceiling(measurements.rounds),
                "rejected": measurements.rejected,
                "measured_at": measurements.about["measured_at"],
                "processor": measurements.about["processor"],
                **{name: str(measurements.about.get(name, "unknown")) for name in SAID_ONCE},
                "timed_by": measurements.about["timed_by"],
                "program": measurements.program,
                COLUMN: measurements.about.get(COLUMN),
            }
        )
    table = pl.DataFrame(programs, infer_schema_length=None)
    return pl.DataFrame(rows), table.with_columns(pl.col(COLUMN).cast(pl.String))


def export(
    collected: Path,
    root: Path,
    fewest_rounds: int = 0,
    add: bool = False,
    least_ceiling: float = -1.0,
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Write the dataset in ``root`` from the raw files in ``collected``/{xla,nlp}, or a dataset.

    All of it is complete before the first name changes: ``npz/layout`` is replaced as a whole,
    so that programs without a raw file vanish, unless they are to ``add`` to those of ``root``, and
    nothing else in ``root`` is deleted. A program that ``root`` has already stays in its split.
    Programs that have fewer than ``fewest_rounds`` rounds, such as one that is being measured, are
    left out, and those whose ceilings, in the mean of both searches, are below ``least_ceiling``.

    Returns:
        The two tables, as :func:`tables` makes them.

    Raises:
        DataError: a raw file cannot be believed; nothing is written then.
        UserError: no raw file, or an ``npz/layout`` that this command has not written.
    """
    folder, names = root / GRAPHS, ("measurements.parquet", "programs.parquet")
    if folder.exists() and not (root / names[0]).exists():
        raise UserError(f"{folder} is not of this command's making: choose another output folder")
    new = [graph for graphs in _worthy(collected, fewest_rounds, least_ceiling) for graph in graphs]
    measured = _with(read_exported(root) if add else [], new)
    if not measured:
        raise UserError(f"{collected}: no measurements of enough rounds; `make collect` makes them")
    measured = _in_families(measured, settled_families(root / names[1]))
    settled = settled_splits(root / names[1])
    splits = assign_splits(((m.source, m.name, m.family) for m in measured), settled=settled)
    results = tables(measured, splits)
    _write(root, measured, splits, dict(zip(names, results, strict=True)))
    return results


def _write(
    root: Path,
    measured: Sequence[Measurements],
    splits: Mapping[tuple[str, str], str],
    written: Mapping[str, pl.DataFrame],
) -> None:
    """Graphs, tables and what they say of themselves; renamed in reverse order, the graphs last."""
    with ExitStack() as stack:
        folder = stack.enter_context(atomic_folder(root / GRAPHS))
        for graph in measured:
            place = folder / graph.source / graph.search / splits[graph.source, graph.name]
            write_graph(place / f"{graph.name}.npz", graph)
        for name, table in written.items():
            remove_leftovers(root / name)
            write_parquet(table, stack.enter_context(atomic_file(root / name)))
        remove_leftovers(root / "README.md")
        notes = root / "NOTES.md"
        remarks = notes.read_text() if notes.exists() else ""
        text = readme(measured, written["programs.parquet"], remarks)
        stack.enter_context(atomic_file(root / "README.md")).write_text(text)
        about = stack.enter_context(atomic_file(root / FILE))
        about.write_text(dataset_text(dataset(measured)))


def _worthy(
    collected: Path, fewest_rounds: int, least_ceiling: float
) -> Iterator[Sequence[Measurements]]:
    """The graphs of each program that has enough rounds, and agrees well enough with itself."""
    for graphs in _programs(collected):
        enough = all(graph.fewest_rounds >= fewest_rounds for graph in graphs)
        if graphs and enough and np.mean([ceiling(g.rounds) for g in graphs]) >= least_ceiling:
            yield graphs


def _programs(collected: Path) -> Iterator[Sequence[Measurements]]:
    """The graphs of each program of a folder of raw files, or of a dataset."""
    by_program: dict[tuple[str, str], list[Measurements]] = {}
    for graph in read_exported(collected):
        by_program.setdefault((graph.source, graph.program), []).append(graph)
    yield from by_program.values()
    yield from (read_raw(path) for path in raw_files(collected))


def _with(before: Sequence[Measurements], new: Sequence[Measurements]) -> list[Measurements]:
    """The new graphs, and those before of programs that none of them is of."""
    names = {(graph.source, graph.program) for graph in new}
    return [*new, *(graph for graph in before if (graph.source, graph.program) not in names)]


def _in_families(
    measured: Sequence[Measurements], settled: Mapping[tuple[str, str], str]
) -> list[Measurements]:
    """The same graphs, in order, named by their families (:mod:`lib.collect.xla.families`).

    Args:
        measured: graphs.
        settled: (source, program) -> family, of an earlier export.
    """
    named_so = []
    for source in SOURCES:
        texts = {m.program: m.about.get(COLUMN) for m in measured if m.source == source}
        counted = {name: json.loads(text) if text else None for name, text in texts.items()}
        before = {name: family for (place, name), family in settled.items() if place == source}
        families = joined(counted.items(), before)
        for m in (graph for graph in measured if graph.source == source):
            name, about = named(m.program, families[m.program]), m.about | {"program": m.program}
            named_so.append(replace(m, name=name, about=about))
    return sorted(named_so, key=_place)


def _place(graph: Measurements) -> tuple[int, str, int]:
    """Where a graph stands among all: as its raw file does, then by the search."""
    return SOURCES.index(graph.source), f"{graph.name}.npz", SEARCHES.index(graph.search)


def raw_files(collected: Path) -> list[Path]:
    """Every finished raw file, by source and name."""
    paths = (path for source in SOURCES for path in sorted((collected / source).glob("*.npz")))
    return [path for path in paths if not path.name.startswith(TEMPORARY)]


def write_graph(path: Path, measurements: Measurements) -> None:
    """Write one graph in the official form; runtimes are zeros if its folder is ``test``."""
    unlabelled = path.parent.name == "test"
    graph = LayoutGraph(
        name=measurements.name,
        node_feat=measurements.graph.node_feat,
        node_opcode=measurements.graph.node_opcode,
        edge_index=measurements.graph.edge_index,
        node_config_ids=measurements.nodes,
        node_splits=measurements.graph.node_splits,
        node_config_feat=measurements.configuration,
        config_runtime=np.zeros_like(measurements.runtime) if unlabelled else measurements.runtime,
    )
    write_layout(path, graph)


def too_few(programs: pl.DataFrame) -> list[str]:
    """The graphs that have fewer configurations than they should, each with its number."""
    rows = programs.select("graph", "configurations", pl.col("collection").str.split("-").list[-1])
    return [f"{name} ({n} {search})" for name, n, search in rows.rows() if n < FEWEST[search]]


def main() -> None:
    """Export, and say in one line what was written."""
    parser = Parser(prog="python -m lib.collect.xla.export", description=__doc__)
    parser.add_argument(
        "collected", type=Path, help="raw files, such as outputs/collect, or a dataset"
    )
    parser.add_argument("root", type=Path, help="the dataset to write, such as data/xla-cpu")
    parser.add_argument("--fewest-rounds", type=int, default=0, help="leave out what has fewer")
    parser.add_argument("--least-ceiling", type=float, default=-1.0, help="leave out what has less")
    parser.add_argument("--add", action="store_true", help="keep what the dataset has already")
    args = parser.parse_args()
    measurements, programs = export(
        args.collected,
        args.root,
        args.fewest_rounds,
        args.add,
        args.least_ceiling,
    )
    if few := too_few(programs):
        print(f"warning: few configurations: {', '.join(few)}", file=sys.stderr)
    files = [p for p in args.root.rglob("*") if p.is_file()]
    print(
        f"export: {len(programs)} graphs of {programs['graph'].n_unique()} programs, "
        f"{len(measurements):,} configurations in {args.root}/, "
        f"{sum(p.stat().st_size for p in files) / 1e6:.1f} MB"
    )


if __name__ == "__main__":
    with one_line_errors():
        main()
