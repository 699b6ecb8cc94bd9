"""From raw measurements to a dataset in the official form, with its tables and its README.

``python -m lib.collect.xla.export outputs/collect data/xla-cpu`` needs no JAX. What it writes is a
pure function of the raw files: the same files give the same bytes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import polars as pl

from lib.collect.xla.hlo import Measurements, read_raw
from lib.collect.xla.splits import assign_splits, settled_splits
from lib.files.artifacts import TEMPORARY, atomic_file, atomic_folder, remove_leftovers
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.files.parquet import write_parquet
from lib.ranking.rounds import ceiling
from lib.tpugraphs.npz import LayoutGraph, write_layout

SOURCES = ("xla", "nlp")
FEWEST = {"random": 48, "default": 32}  # configurations that a program should have


def tables(
    measured: Sequence[Measurements], splits: dict[tuple[str, str], str]
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """``measurements.parquet``, a row a configuration, and ``programs.parquet``, a row a graph."""
    trained = {(m.source, m.family) for m in measured if splits[m.source, m.name] == "train"}
    rows, programs = [], []
    for one in measured:
        runtime = one.runtime
        base = runtime[(one.configuration == -1).all((1, 2))]
        split = splits[one.source, one.name]
        key = {"collection": one.collection, "split": split, "graph": one.name}
        rows += [
            {**key, "config": k, "runtime": t, "rounds": [r for r in rs if r], "optimized_hash": h}
            for k, (t, rs, h) in enumerate(
                zip(runtime.tolist(), one.rounds.tolist(), one.optimized_hash, strict=True)
            )
        ]
        programs.append(
            {
                **key,
                "family": one.family,
                "family_in_training": (one.source, one.family) in trained,
                "nodes": len(one.graph.node_opcode),
                "sites": len(one.nodes),
                "configurations": len(runtime),
                "base_ms": base.min() / 1e6 if len(base) else None,
                "spread": runtime.max() / runtime.min(),
                "ceiling": ceiling(one.rounds),
                "rejected": one.rejected,
                "measured_at": one.about["measured_at"],
                "processor": one.about["processor"],
            }
        )
    return pl.DataFrame(rows), pl.DataFrame(programs, infer_schema_length=None)


def export(
    collected: Path, root: Path, fewest_rounds: int = 0
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Write the dataset in ``root`` from the raw files in ``collected``/{xla,nlp}.

    All of it is complete before the first name changes: ``npz/layout`` is replaced as a whole,
    so that programs without a raw file vanish, and nothing else in ``root`` is deleted. A program
    that ``root`` has already stays in its split. Programs that have fewer than ``fewest_rounds``
    rounds, such as one that is being measured, are left out.

    Returns:
        The two tables, as :func:`tables` makes them.

    Raises:
        DataError: a raw file cannot be believed; nothing is written then.
        UserError: no raw file, or an ``npz/layout`` that this command has not written.
    """
    folder, names = root / "npz" / "layout", ("measurements.parquet", "programs.parquet")
    if folder.exists() and not (root / names[0]).exists():
        raise UserError(f"{folder} is not of this command's making: choose another output folder")
    measured = _measured(collected, fewest_rounds)
    settled = settled_splits(root / names[1])
    splits = assign_splits(((m.source, m.name, m.family) for m in measured), settled=settled)
    results = tables(measured, splits)
    with ExitStack() as stack:  # renamed in reverse order, so the folder last
        temporary = stack.enter_context(atomic_folder(folder))
        for one in measured:
            place = temporary / one.source / one.search / splits[one.source, one.name]
            write_graph(place / f"{one.name}.npz", one)
        for name, table in zip(names, results, strict=True):
            remove_leftovers(root / name)
            write_parquet(table, stack.enter_context(atomic_file(root / name)))
        remove_leftovers(root / "README.md")
        notes = root / "NOTES.md"
        text = readme(measured, results[1], notes.read_text() if notes.exists() else "")
        stack.enter_context(atomic_file(root / "README.md")).write_text(text)
    return results


def _measured(collected: Path, fewest_rounds: int) -> list[Measurements]:
    """Those of programs that have enough rounds; :class:`UserError` if there are none."""
    found = [read_raw(path) for path in raw_files(collected)]
    finished = [own for own in found if all(m.fewest_rounds >= fewest_rounds for m in own)]
    if not finished:
        raise UserError(f"{collected}: no measurements of enough rounds; `make collect` makes them")
    return [one for own in finished for one in own]


def raw_files(collected: Path) -> list[Path]:
    """Every finished raw file, by source and name."""
    found = (path for source in SOURCES for path in sorted((collected / source).glob("*.npz")))
    return [path for path in found if not path.name.startswith(TEMPORARY)]


def write_graph(path: Path, one: Measurements) -> None:
    """Write one graph in the official form; runtimes are zeros if its folder is ``test``."""
    unlabelled = path.parent.name == "test"
    graph = LayoutGraph(
        name=one.name,
        node_feat=one.graph.node_feat,
        node_opcode=one.graph.node_opcode,
        edge_index=one.graph.edge_index,
        node_config_ids=one.nodes,
        node_splits=one.graph.node_splits,
        node_config_feat=one.configuration,
        config_runtime=np.zeros_like(one.runtime) if unlabelled else one.runtime,
    )
    write_layout(path, graph)


README = """# Layout measurements on XLA:CPU

Generated by `python -m lib.collect.xla.export`: edit that, not this.

{programs} JAX programs of {families} families, {configurations:,} measured configurations, in the
form of TpuGraphs' layout collections. `make collect` measures them anew, in hours.

- Processor: {processor}; from {first} to {last}
- JAX {jax}, `XLA_FLAGS={xla_flags}`
- Other work on the machine held off while timing: {quiet_lock}

## How it was measured

- A *site* is a convolution, dot or reshape. A configuration gives its output, input and kernel a
  layout (`with_layout_constraint`) or leaves them to the compiler (-1), and XLA inserts the copies
  that follow. It is kept only if its program still computes what the plain program does.
- `random` draws configurations; `default` is the whole history of a genetic search for fast ones.
- Each program has a process of its own, which times on one core alone. A round is the fastest run
  within {round_seconds} s, after one that warms up. Rounds go over all configurations of a program
  in shuffled order, again and again: {rounds}.
- The label is the tenth percentile of a configuration's rounds, in ns; of fewer than 12 rounds,
  their minimum.
- *Ceiling*: Kendall's tau-b between the labels of the even rounds and those of the odd ones: how
  far the clock agrees with itself. Labels use all rounds, so they are steadier than either half,
  and a very good predictor may come out somewhat above it.

## Files

- `npz/layout/<source>/<search>/<split>/<graph>.npz`: the official form. "Leading only" node
  features are padded with -1; every runtime in `test` is 0.
- `measurements.parquet`, a row per configuration: `collection`, `split`, `graph`, `config` (its row
  in the npz), `runtime` (the label in ns, for `test` too: for scoring only), `rounds` (ns, in the
  order of time), `optimized_hash` (of the compiled program).
- `programs.parquet`, a row per graph: `collection`, `split`, `graph`, `family`,
  `family_in_training`, `nodes`, `sites`, `configurations`, `base_ms` (the compiler's own layouts),
  `spread` (slowest / fastest), `ceiling`, `rejected` (configurations of both searches that did not
  compile or computed something else), `measured_at`, `processor`.

## Splits

By program, and the same for both searches. `test` is about a fifth of a source's programs: half of
that are whole families, chosen by a hash, that training never sees, and half are new variants of
families that it does. `valid` is about a tenth, variants only. A family is a name: relatives under
two names, such as two kinds of ResNet, may stand on both sides.

## Limits

- One kind of machine, one thread, programs of milliseconds. The ranking need not hold on another
  processor, still less on a TPU, and the official graphs are far bigger.
- Wall-clock time on a shared machine: caches, clock rates and neighbours are in the labels, and
  the ceiling shows how much. Only times within a program compare.
- {duplicates:.1%} of the configurations compiled to a machine program that their graph had
  already; the order among those is noise.
- The compiler's own layouts took {headroom:.2f} times the fastest reading (median over graphs), in
  part by the luck of the best of many. This data ranks slow-downs; it promises no speed-up.

{notes}## Programs
"""
SAID = ("processor", "jax", "xla_flags", "round_seconds", "quiet_lock")
COLUMNS = ("nodes", "sites", "configurations", "base_ms", "spread", "ceiling")
FORMATS = ("{:.0f}", "{:.0f}", "{:.0f}", "{:.2f}", "{:.2f}", "{:.2f}")


def readme(measured: Sequence[Measurements], programs: pl.DataFrame, notes: str = "") -> str:
    """The dataset's README in Markdown, from what the raw files say about themselves.

    ``notes`` is what they do not say: Markdown that the measurer keeps in ``NOTES.md``.
    """

    def said(key: str) -> str:
        return "; ".join(sorted({str(one.about.get(key, "unknown")) for one in measured}))

    dates = sorted(one.about["measured_at"] for one in measured)
    rounds = {one.search: set() for one in measured}
    for one in measured:
        rounds[one.search] |= set((one.rounds > 0).sum(1).tolist())
    counts = [len(one.rounds) for one in measured]
    copies = [len(one.optimized_hash) - len(set(one.optimized_hash)) for one in measured]
    headroom = [
        base * 1e6 / one.runtime.min()
        for base, one in zip(programs["base_ms"], measured, strict=True)
        if base
    ]
    text = README.format(
        programs=len({(one.source, one.name) for one in measured}),
        families=len({(one.source, one.family) for one in measured}),
        configurations=sum(counts),
        first=dates[0],
        last=dates[-1],
        rounds=", ".join(f"{_span(k)} each in `{search}`" for search, k in rounds.items()),
        duplicates=sum(copies) / sum(counts),
        headroom=np.median(headroom),
        notes=f"## About this measurement\n\n{notes.strip()}\n\n" if notes else "",
        **{key: said(key) for key in SAID},
    )
    groups = programs.partition_by("collection", maintain_order=True)
    return text + "".join(map(_markdown, groups))


def _span(numbers: set[int]) -> str:
    """``5``, or ``5 to 8``."""
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def _markdown(programs: pl.DataFrame) -> str:
    """One collection's programs as a table, the means in its last row."""
    names = [*COLUMNS[:3], "base ms", *COLUMNS[4:]]
    lines = [f"\n### {programs['collection'][0]}\n", f"| program | split | {' | '.join(names)} |"]
    lines += ["|---|---" + "|---:" * len(COLUMNS) + "|"]
    labels = [
        f"{row['graph']} | {row['split']}" + (", unseen family" * (not row["family_in_training"]))
        for row in programs.iter_rows(named=True)
    ]
    values = programs.select(COLUMNS)
    labels.append("**mean** |")
    for label, row in zip(labels, [*values.rows(), values.mean().row(0)], strict=True):
        cells = [f.format(x) if x is not None else "" for f, x in zip(FORMATS, row, strict=True)]
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def too_few(programs: pl.DataFrame) -> list[str]:
    """The graphs that have fewer configurations than they should, each with its number."""
    rows = programs.select("graph", "configurations", pl.col("collection").str.split("-").list[-1])
    return [f"{name} ({n} {search})" for name, n, search in rows.rows() if n < FEWEST[search]]


def main() -> None:
    """Export, and say in one line what was written."""
    parser = Parser(prog="python -m lib.collect.xla.export", description=__doc__)
    parser.add_argument("collected", type=Path, help="the raw files, such as outputs/collect")
    parser.add_argument("root", type=Path, help="the dataset to write, such as data/xla-cpu")
    parser.add_argument("--fewest-rounds", type=int, default=0, help="leave out what has fewer")
    args = parser.parse_args()
    measurements, programs = export(args.collected, args.root, args.fewest_rounds)
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
