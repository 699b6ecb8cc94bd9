"""The scores that stage 3 writes, a parquet a fold, as stage 4 and the report read them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import polars as pl

from lib.files.errors import DataError
from lib.files.parquet import read_parquet

COLUMNS = {
    "split": "text",
    "graph": "text",
    "config": "integer",
    "permutation": "integer",
    "score": "number",
}
TYPES = pl.Schema({"config": pl.Int32, "permutation": pl.Int16, "score": pl.Float64})
KEYS = ("split", "graph", "config")
ADVICE = "delete it, and run 03_infer.py again"


def read_score_rows(path: Path) -> pl.DataFrame:
    """Rows of a scores parquet: one a split, graph, configuration and permutation.

    Raises:
        DataError: if the file is missing or damaged, or a score is not finite.
    """
    rows = read_parquet(path, COLUMNS, ADVICE)
    try:
        rows = rows.cast(TYPES)
    except pl.exceptions.PolarsError as error:
        raise DataError(
            path, "types", str(error).partition("\n")[0], f"small numbers; {ADVICE}"
        ) from None
    if not rows["score"].is_finite().all():
        raise DataError(path, "score", "a value that is not finite", f"finite ones; {ADVICE}")
    return rows


def mean_scores(path: Path, scores: pl.DataFrame, counts: Mapping[str, int]) -> pl.DataFrame:
    """Each configuration's mean over permutations: ``split, graph, config, score``, sorted by them.

    Args:
        path: the file, to name.
        scores: its rows, with their permutations.
        counts: how many configurations each graph has.

    Raises:
        DataError: unless every graph has every configuration's score under each permutation.
    """
    permutation = pl.col("permutation").cast(pl.Int64)
    means = scores.group_by(KEYS, maintain_order=True).agg(
        pl.col("score").mean(), rounds=pl.len(), sum=permutation.sum()
    )
    config = pl.col("config")
    parts = means.group_by(KEYS[:-1]).agg(
        rows=pl.len(),
        least=config.min(),
        most=config.max(),
        rounds=pl.col("rounds").max(),
        alike=(pl.col("rounds").min() == pl.col("rounds").max())
        & (pl.col("sum").min() == pl.col("sum").max())
        # Permutations are numbered from 0; with one twice and another missing, this is less.
        & (pl.col("sum").max() * 2 == pl.col("rounds").max() * (pl.col("rounds").max() - 1)),
    )
    for row in parts.sort(KEYS[:-1]).iter_rows(named=True):
        count = counts.get(row["graph"], 0)
        if (row["least"], row["most"], row["rows"]) != (0, count - 1, count) or not row["alike"]:
            often = "equally" if row["alike"] else "unequally"
            actual = f"{row['rows']} configurations, {row['least']} to {row['most']}, {often} often"
            expected = f"each of 0 to {count - 1} once a permutation; {ADVICE}"
            raise DataError(path, " ".join(row[key] for key in KEYS[:-1]), actual, expected)
    return means.select(*KEYS, "score").sort(KEYS)


def check_graphs(path: Path, scores: pl.DataFrame, expected: Mapping[str, Iterable[str]]) -> None:
    """Raise a :class:`DataError` unless each split has the graphs that are ``expected`` of it.

    Training graphs may be absent, for they are scored only with ``score_training``.
    """
    parts = scores.select("split", "graph").unique().group_by("split").agg("graph")
    there = {split: set(graphs) for split, graphs in parts.iter_rows()}
    for split in sorted(there.keys() | expected.keys()):
        present, graphs = there.get(split, set()), set(expected.get(split, ()))
        if present == graphs or (split == "train" and not present):
            continue
        lost, surplus = sorted(graphs - present), sorted(present - graphs)
        example = f"no {lost[0]}" if lost else f"{surplus[0]}, which is not of this fold's {split}"
        more = len(lost or surplus) - 1
        message = example + (f" and {more} more" if more else "")
        raise DataError(path, split, message, f"the graphs of the fold; {ADVICE}")
