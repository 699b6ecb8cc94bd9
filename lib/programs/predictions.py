"""Predicted latencies of programs, as stage 3 writes them a fold, and stage 4 blended."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from lib.files.errors import DataError
from lib.files.parquet import read_parquet

KEYS = ("split", "task", "program", "device")
SCHEMA = {
    "split": pl.String,  # of the fold: valid, test or train
    "task": pl.String,
    "program": pl.Int32,  # row of the dataset's table of programs
    "device": pl.String,
    "prediction": pl.Float64,  # seconds
    "latency": pl.Float32,  # measured, seconds
}
KINDS = {pl.String: "text", pl.Int32: "integer", pl.Float64: "number", pl.Float32: "number"}
BLENDED = {**SCHEMA, "in_sums": pl.Float64}  # of predictions.csv; the last is to be added up
ADVICE, BLEND_ADVICE = "run 03_infer.py again", "run 04_ensemble.py again"


def nearest(mean: pl.Expr, variance: pl.Expr) -> pl.Expr:
    """Return seconds whose expected relative error is least, by what networks predict.

    If the logarithm of a latency is normal, exp(mean - variance) minimizes the expectation of
    |predicted / measured - 1|, since it is the median of latencies that are weighted by 1/latency.
    How far networks disagree is a variance that none of them can know alone, so that each network
    has gone below the middle by less. Where there is one network, it is right as it is.

    Args:
        mean, variance: of networks' logarithms of seconds; the variance of one is null.
    """
    return (mean - variance.fill_null(0.0)).exp()


def read_blended(path: Path) -> pl.DataFrame:
    """Read the table of stage 4, of the programs that a fold, or all, had not seen: ``BLENDED``.

    Raises:
        DataError: the file is missing, or is not what stage 4 writes.
    """
    try:
        return pl.read_csv(path, schema=BLENDED)
    except (OSError, pl.exceptions.PolarsError) as error:
        why = str(error).splitlines()[0]
        raise DataError(path, "csv", why, f"predictions; {BLEND_ADVICE}") from None


def read_predictions(path: Path, pairs: pl.DataFrame, optional: Iterable[str]) -> pl.DataFrame:
    """Return the predictions of one fold, in the order of ``KEYS``.

    Args:
        path: the parquet.
        pairs: ``split, task, program, device`` of all that should be there, each once.
        optional: splits that may be absent altogether.

    Raises:
        DataError: if it is missing or damaged, or a prediction is missing, too many or of something
            else.
    """
    kinds = {name: KINDS[dtype] for name, dtype in SCHEMA.items()}
    table = read_parquet(path, kinds, ADVICE).cast(SCHEMA).sort(*KEYS)
    absent = set(optional) - set(table["split"])
    expected = pairs.cast({"program": pl.Int32}).filter(~pl.col("split").is_in(list(absent)))
    if not table.select(KEYS).equals(expected.select(KEYS).sort(*KEYS)):
        for side in sorted({*table["split"], *expected["split"]}):
            there, due = (frame.filter(split=side).select(KEYS[1:]) for frame in (table, expected))
            if not there.equals(due.sort(*KEYS[1:])):
                text = f"{len(there)} predictions, {len(due)} expected"
                raise DataError(path, side, text, f"the fold's programs, each once; {ADVICE}")
    return table
