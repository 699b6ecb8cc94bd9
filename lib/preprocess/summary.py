"""The table at the end of stage 1: what went in, what came out."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from lib.files.terminal import readable

SIZES = (  # of a cache: what, columns of its table before and after; those that it has are shown
    ("nodes", "source_nodes", "nodes"),
    ("edges", "source_edges", "edges"),
    ("programs", "source_programs", "distinct"),
    ("leaves", "source_leaves", "leaves"),
    ("configurations", "source_configurations", "configurations"),
)


def summary_table(table: pl.DataFrame, cache: Path) -> str:
    """Graphs, what they consist of, and bytes, before and after, as aligned text.

    Bytes before are the source's arrays as float32 and int64 in memory, bytes after the cache's
    files on disk, which is also what they take in memory when all of them are mapped.
    """
    after_bytes = sum(file.stat().st_size for file in cache.iterdir())
    rows = [("graphs", len(table), len(table))]
    rows += [
        (name, int(table[before].sum()), int(table[after].sum()))
        for name, before, after in SIZES
        if before in table.columns
    ]
    rows.append(("bytes", int(table["source_bytes"].sum()), after_bytes))
    lines = [f"{'':<16}{'before':>12}{'after':>12}{'ratio':>9}"]
    for name, before, after in rows:
        shown = [readable(v) if name == "bytes" else f"{v:,}" for v in (before, after)]
        lines.append(f"{name:<16}{shown[0]:>12}{shown[1]:>12}{before / max(1, after):>8.1f}x")
    return "\n".join(lines)
