"""From raw measurements to a dataset in the official form, with its tables.

``python -m lib.collect.xla.export outputs/collect outputs/xla-cpu`` needs no JAX. What it writes is
a pure function of the raw files, and of the splits that programs have already: the same files give
the same bytes.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import polars as pl

from lib.collect.xla.measurements import FACTS, Measurements, read_raw
from lib.collect.xla.programs import BUNDLED
from lib.files.artifacts import TEMPORARY, atomic_file, atomic_folder, remove_leftovers
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.files.parquet import read_parquet, write_parquet
from lib.ranking.rounds import ceiling
from lib.tpugraphs.dataset import FILE, MEASUREMENTS, Dataset, dataset_text
from lib.tpugraphs.npz import LayoutGraph, write_layout
from lib.tpugraphs.roots import FAMILIES_FILE

GRAPHS = Path("npz", "layout")  # in a dataset
SOURCES = ("xla", "nlp")
TEST_SHARE, VALID_SHARE = 0.2, 0.1
Splits = dict[tuple[str, str], str]  # (source, program) -> train, valid or test


def assign_splits(
    programs: Iterable[tuple[str, str]], settled: Mapping[tuple[str, str], str]
) -> Splits:
    """Return which split each program is in: a pure function of the arguments.

    What is settled stays as it is, so that a program whose labels were learned from never comes to
    be tested on. A new program of a settled family goes where that family is: to ``train``, unless
    all of the family is elsewhere. Of the other programs of a source, whole families in the order
    of a hash go to ``test`` while they fit into a fifth of all, then to ``valid`` while they fit
    into a tenth; the rest is learned from.

    Args:
        programs: (source, program), whose family is its part before the first dot.
        settled: splits of an earlier deal.
    """
    splits: Splits = {}
    for source in SOURCES:
        names = sorted({program for own, program in programs if own == source})
        known: dict[str, set[str]] = {}
        for (own, program), split in settled.items():
            if own == source:
                known.setdefault(program.split(".")[0], set()).add(split)
        dealt = Counter(settled[source, name] for name in names if (source, name) in settled)
        families: dict[str, list[str]] = {}
        for name in names:
            families.setdefault(name.split(".")[0], []).append(name)
        most = {"test": TEST_SHARE * len(names), "valid": VALID_SHARE * len(names)}
        for family in sorted(families, key=lambda name: hashlib.sha256(name.encode()).digest()):
            members = families[family]
            if family in known:
                split = "train" if "train" in known[family] else min(known[family])
            else:
                fits = (s for s in most if dealt[s] + len(members) <= most[s])
                split = next(fits, "train")
                dealt[split] += len(members)
            splits |= {(source, name): settled.get((source, name), split) for name in members}
    return splits


def settled_splits(root: Path) -> Splits:
    """Return the splits of the programs that a dataset has, none if there is no dataset."""
    table = root / FAMILIES_FILE
    if not table.exists():
        return {}
    needed = dict.fromkeys(("collection", "graph", "split"), "text")
    rows = read_parquet(table, needed, "a dataset that make collect wrote")
    source = pl.col("collection").str.split("-").list[1]
    return {(own, graph): s for own, graph, s in rows.select(source, "graph", "split").rows()}


def tables(measured: Sequence[Measurements], splits: Splits) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return ``measurements.parquet``, a row a configuration, and ``programs.parquet``."""
    trained = {(m.source, m.family) for m in measured if splits[m.source, m.name] == "train"}
    rows, programs = [], []
    for graph in measured:
        runtime, rounds = graph.runtime, graph.rounds.tolist()
        base = runtime[(graph.configuration == -1).all((1, 2))]
        split = splits[graph.source, graph.name]
        key = {"collection": graph.collection, "split": split, "graph": graph.name}
        columns = zip(runtime.tolist(), rounds, graph.optimized_hash, strict=True)
        rows += [
            {**key, "config": k, "runtime": t, "rounds": [r for r in rs if r], "optimized_hash": h}
            for k, (t, rs, h) in enumerate(columns)
        ]
        programs.append(
            {
                **key,
                "family": graph.family,
                "family_in_training": (graph.source, graph.family) in trained,
                "nodes": len(graph.graph.node_opcode),
                "sites": len(graph.nodes),
                "configurations": len(runtime),
                "base_ms": base.min() / 1e6 if len(base) else None,
                "spread": runtime.max() / runtime.min(),
                "ceiling": ceiling(graph.rounds),
                "rejected": graph.rejected,
                **{name: graph.facts[name] for name in FACTS},
            }
        )
    return pl.DataFrame(rows), pl.DataFrame(programs, infer_schema_length=None)


def export(collected: Path, root: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Write the dataset in ``root`` from the raw files in ``collected``/{xla,nlp}.

    All of it is complete before the first name changes: ``npz/layout`` is replaced as a whole, so
    that programs without a raw file vanish, and nothing else in ``root`` is deleted. Programs that
    ``root`` has already, or the bundled data, stay in their split.

    Returns:
        The two tables, see :func:`tables`.

    Raises:
        DataError: a raw file is damaged; nothing is written then.
        UserError: no raw file, or an ``npz/layout`` that this command has not written.
    """
    if (root / GRAPHS).exists() and not (root / MEASUREMENTS).exists():
        raise UserError(f"{root / GRAPHS}: not written by this command; choose another DATA=")
    measured = [graph for path in raw_files(collected) for graph in read_raw(path)]
    if not measured:
        raise UserError(f"{collected}: no measurements; `make collect` makes them")
    settled = settled_splits(BUNDLED) | settled_splits(root)
    splits = assign_splits([(m.source, m.name) for m in measured], settled)
    measurements, programs = tables(measured, splits)
    with ExitStack() as stack:  # renamed in reverse order, the graphs last
        folder = stack.enter_context(atomic_folder(root / GRAPHS))
        for graph in measured:
            place = folder / graph.source / graph.search / splits[graph.source, graph.name]
            write_graph(place / f"{graph.name}.npz", graph)
        for name, table in ((MEASUREMENTS, measurements), (FAMILIES_FILE, programs)):
            remove_leftovers(root / name)
            write_parquet(table, stack.enter_context(atomic_file(root / name)))
        text = dataset_text(dataset_of(programs))
        stack.enter_context(atomic_file(root / FILE)).write_text(text)
    return measurements, programs


def raw_files(collected: Path) -> list[Path]:
    """Return every finished raw file, by source and name."""
    paths = (path for source in SOURCES for path in sorted((collected / source).glob("*.npz")))
    return [path for path in paths if not path.name.startswith(TEMPORARY)]


def write_graph(path: Path, measured: Measurements) -> None:
    """Write one graph in the official form; runtimes are zeros if its folder is ``test``."""
    runtime = measured.runtime * (path.parent.name != "test")
    graph = LayoutGraph(
        name=measured.name,
        **vars(measured.graph),
        node_config_ids=measured.nodes,
        node_config_feat=measured.configuration,
        config_runtime=runtime,
    )
    write_layout(path, graph)


def dataset_of(programs: pl.DataFrame) -> Dataset:
    """Return the contents of ``dataset.json`` of measured programs.

    XLA for CPUs brings data back to the program's own layouts at once, so layouts `return`.
    """
    processors, versions = (sorted(programs[name].unique()) for name in ("processor", "jax"))
    return Dataset(
        name="layouts on XLA:CPU",
        size="small",
        hardware="cpu",
        processor=", ".join(processors),
        compiler=f"XLA for CPUs of JAX {', '.join(versions)}",
        labels="mean of the faster half of the rounds",
        source="make collect",
        licence="Apache-2.0",
    )


def main() -> None:
    """Export, and say what was written and how far the clock agrees with itself."""
    parser = Parser(prog="python -m lib.collect.xla.export", description=__doc__)
    parser.add_argument("collected", type=Path, help="raw files, such as outputs/collect")
    parser.add_argument("root", type=Path, help="the dataset to write, such as outputs/xla-cpu")
    args = parser.parse_args()
    measurements, programs = export(args.collected, args.root)
    means = programs.group_by("collection", maintain_order=True).agg(pl.col("ceiling").mean())
    print(
        f"export: {len(programs)} graphs of {programs['graph'].n_unique()} programs, "
        f"{len(measurements):,} configurations in {args.root}/; mean ceiling "
        + ", ".join(f"{mean:.2f} ({name})" for name, mean in means.rows())
    )


if __name__ == "__main__":
    with one_line_errors():
        main()
