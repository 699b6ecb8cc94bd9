"""Predicted latencies of programs, as stage 3 writes them a fold, and stage 4 blended."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import polars as pl

from lib.files.errors import DataError
from lib.files.parquet import read_parquet

KEYS = ("split", "task", "program", "device")
COLUMNS = {
    "split": "text",  # of the fold: valid, test or train
    "task": "text",
    "program": "integer",  # row of the dataset's table of programs
    "device": "text",
    "prediction": "number",  # seconds
    "latency": "number",  # measured, seconds
}
SCHEMA = {
    "split": pl.String,
    "task": pl.String,
    "program": pl.Int32,
    "device": pl.String,
    "prediction": pl.Float64,
    "latency": pl.Float32,
}
ADVICE = "run 03_infer.py again"


def read_predictions(path: Path, pairs: pl.DataFrame, optional: Iterable[str]) -> pl.DataFrame:
    """The predictions of one fold, in the order of ``KEYS``.

    Args:
        path: the parquet.
        pairs: ``split, task, program, device`` of all that should be there, each once.
        optional: splits that may be absent altogether.

    Raises:
        DataError: if it is missing or damaged, a prediction is no time, or one is missing, too
            many or of something else.
    """
    table = read_parquet(path, COLUMNS, ADVICE).cast(SCHEMA).sort(*KEYS)
    times = table["prediction"]
    if not (times.is_finite() & (times > 0)).all():
        raise DataError(path, "prediction", "a value that is no time", f"seconds; {ADVICE}")
    absent = set(optional) - set(table["split"])
    expected = pairs.cast({"program": pl.Int32}).filter(~pl.col("split").is_in(list(absent)))
    if not table.select(KEYS).equals(expected.select(KEYS).sort(*KEYS)):
        for side in sorted({*table["split"], *expected["split"]}):
            there, due = (frame.filter(split=side).select(KEYS[1:]) for frame in (table, expected))
            if not there.equals(due.sort(*KEYS[1:])):
                text = f"{len(there)} predictions, {len(due)} expected"
                raise DataError(path, side, text, f"the fold's programs, each once; {ADVICE}")
    return table
