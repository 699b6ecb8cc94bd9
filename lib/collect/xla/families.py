"""Programs that differ little from each other are one family, by what XLA makes of them.

Families are kept apart when programs are split and dealt to folds. A family is named by who wrote
or drew a program; two grammars may still draw nearly the same network. So the operations of the
optimized programs are compared, which does not see names, sizes, depths, or what is only written
differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import polars as pl

from lib.files.parquet import read_parquet

ALIKE = 0.9  # share of the operations that two programs of one family have in common, at least
Operations = Mapping[str, int]  # of :func:`lib.collect.xla.operations.operations`


def likeness(a: Operations, b: Operations) -> float:
    """The share of two programs' operations that they have in common, 0 to 1.

    Each operation counts by its share of its own program, so that a network of two blocks is like
    one of four of the same blocks.
    """
    if not a or not b:
        return 0.0
    totals = sum(a.values()), sum(b.values())
    return sum(min(count / totals[0], b.get(name, 0) / totals[1]) for name, count in a.items())


def joined(
    programs: Iterable[tuple[str, Operations | None]], settled: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The family of each program of one source.

    One after the other, by name, those that are settled first: a program that is like programs
    before it, but none of the family that its name says, joins the family of the likest. All other
    programs, and those whose operations were not counted, are of the family that their name says.

    Args:
        programs: name where it is written or drawn, and operations.
        settled: name -> family, of an earlier export: those stay.
    """
    settled = settled or {}
    families: dict[str, str] = {}
    counted: list[tuple[str, Operations]] = []
    for name, operations in sorted(programs, key=lambda p: (p[0] not in settled, p[0])):
        families[name] = settled.get(name, name.split(".")[0])
        if operations is None:
            continue
        if name not in settled:
            alike = [(likeness(operations, other), families[before]) for before, other in counted]
            near = [pair for pair in alike if pair[0] >= ALIKE]
            if near and families[name] not in {family for _, family in near}:
                families[name] = max(near)[1]
        counted.append((name, operations))
    return families


def named(name: str, family: str) -> str:
    """A program's name in a dataset, whose first part is its family: there it may be another."""
    return name if name.split(".")[0] == family else f"{family}.{name}"


def settled_families(table: Path) -> dict[tuple[str, str], str]:
    """(source, program) -> family of the dataset that a ``programs.parquet`` describes."""
    if not table.exists():
        return {}
    needed = dict.fromkeys(("collection", "graph", "family"), "text")
    rows = read_parquet(
        table, needed, "a dataset that lib.collect.xla.export wrote", all_columns=True
    )
    program = "program" if "program" in rows.columns else "graph"
    source = pl.col("collection").str.split("-").list[1]
    return {
        (place, name): family
        for place, name, family in rows.select(source, program, "family").rows()
    }
