"""The folders of raw data: Kaggle's folder, the official archives' folder, or ours."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from lib.files.errors import DataError, UserError
from lib.files.parquet import read_parquet
from lib.tpugraphs.dataset import (
    FILE,
    MEASUREMENTS,
    SPLITS,
    TPUGRAPHS,
    Dataset,
    of_programs,
    raw_files,
)
from lib.tpugraphs.npz import stem

PUNCTUATION = frozenset(',:;"')  # of a submission
FAMILIES_FILE = "programs.parquet"
MEASURED = dict.fromkeys(("collection", "split", "graph"), "text")
MEASURED |= {"config": "integer", "runtime": "number", "rounds": "list of integer"}
LONGEST = 2**63 - 1
POSITIVE = "positive nanoseconds"
ADVICE = "make collect writes it; without it nothing is compared with it"


@dataclass(frozen=True)
class DataRoot:
    """A folder of raw data.

    Attributes:
        path: the root, as given.
        npz: the folder below it that holds ``layout`` and ``tile``.
        dataset: what it says of itself.
    """

    path: Path
    npz: Path
    dataset: Dataset = TPUGRAPHS

    def files(self, folder: Path, split: str) -> list[Path]:
        """The raw files of one split of a collection, sorted by name; raises UserError if a graph
        cannot be called so, see :func:`unusable_in`."""
        if of_programs(folder):
            return [self.path / FILE] if split == SPLITS[0] else []
        paths = raw_files(self.npz / folder / split)
        for path in paths:
            if bad := unusable_in(stem(path)):
                name, where = ascii(path.name), path.parent
                raise UserError(f"{where}: {name}: {bad} in a graph's name; rename the file")
        return paths

    def measurements(self, collection: str) -> pl.DataFrame | None:
        """True runtimes and their rounds, kept apart from the npz files; ``None`` if not there.

        Columns ``split, graph, config, runtime, rounds``: one row a configuration, in the order
        of the source file, runtimes in nanoseconds, ``rounds`` a list of them.

        Raises:
            DataError: if it is another table, or something in it is no measurement.
        """
        path = self.path / MEASUREMENTS
        if not path.exists() and not path.is_symlink():
            return None
        named = pl.col("collection") == collection
        # Rows of no collection are read too, so that they are reported and not passed over.
        rows = read_parquet(path, MEASURED, ADVICE, named | pl.col("collection").is_null())
        rows = rows.drop("collection").sort("graph", "config")
        runtime, rounds = pl.col("runtime"), pl.col("rounds").list
        possible = runtime.is_finite() & runtime.is_between(0, LONGEST, closed="right")
        _check_none(path, rows, "runtime", ~possible, POSITIVE)
        unknown = rounds.drop_nulls().list.len() < rounds.len()
        _check_none(path, rows, "rounds", unknown | (rounds.min() <= 0), f"a list of {POSITIVE}")
        wrong = pl.col("config") != pl.int_range(pl.len()).over("graph")
        _check_none(path, rows, "config", wrong, "each of 0, 1, 2 ... once")
        whole = rows["runtime"].dtype.is_integer()
        return rows.with_columns(runtime.cast(pl.Int64 if whole else pl.Float64))


def unusable_in(name: str) -> str:
    """Return what cannot stand in a graph's name, in words; empty if nothing is wrong with it.

    A submission has a line a graph: its ID, a comma, and indices joined by semicolons; the ID ends
    in a colon and the name. So neither these nor quotes may be in a name, nor anything that ends a
    line or cannot be seen (control characters, line and paragraph separators). Bytes of a file's
    name that are not UTF-8 (surrogates, in Python) cannot be written anywhere.
    """
    if name.isascii() and name.isprintable() and PUNCTUATION.isdisjoint(name):
        return ""
    for character in name:
        if unicodedata.category(character) == "Cs":
            return "bytes that are not UTF-8"
        if character in PUNCTUATION or unicodedata.category(character) in ("Cc", "Zl", "Zp"):
            return ascii(character)
    return ""


def _check_none(path: Path, rows: pl.DataFrame, column: str, bad: pl.Expr, expected: str) -> None:
    """Raise a DataError that names the first row of which ``bad`` holds."""
    bad_rows = rows.filter(bad).head(1)
    if len(bad_rows):
        graph, value = bad_rows["graph"][0], bad_rows[column].to_list()[0]
        raise DataError(path, f"{column} of {graph}", str(value)[:60], f"{expected}; {ADVICE}")
