"""Tables of scores, whoever wrote them."""

from __future__ import annotations

import polars as pl

from lib.files.parquet import write_parquet
from lib.files.scores import read_score_rows

ROWS = {
    "split": ["test", "test"],
    "graph": ["g", "g"],
    "config": [0, 1],
    "permutation": [0, 0],
    "score": [0.5, 1.5],
    "runtime": [None, None],
}


def test_other_integers_are_the_same_scores(tmp_path):
    """Tables of several folds are put together, which needs the same types."""
    frames = []
    for name, config in (("a", pl.Int64), ("b", pl.UInt8)):
        frame = pl.DataFrame(ROWS).with_columns(pl.col("config", "permutation").cast(config))
        write_parquet(frame.with_columns(pl.col("score").cast(pl.Float32)), tmp_path / name)
        frames.append(read_score_rows(tmp_path / name))
    assert frames[0].equals(frames[1])
    assert frames[0].schema["config"] == pl.Int32
    assert len(pl.concat(frames)) == 4
