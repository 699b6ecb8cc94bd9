"""Files of the folds, and scores that can be believed."""

from __future__ import annotations

import polars as pl
import pytest

from lib.files.errors import DataError, UserError
from lib.files.parquet import write_parquet
from lib.files.scores import COLUMNS
from lib.scoring.folds import fold_files, read_scores


def test_fold_files(tmp_path):
    others = (".partial-a-fold_1.parquet", "fold_0.txt", "fold_3_old.parquet", "fold_².parquet")
    for name in ("fold_10.parquet", "fold_2.parquet", *others, "fold_01.parquet"):
        (tmp_path / name).touch()
    assert list(fold_files(tmp_path, None)) == [2, 10]
    for fold in (0, 1):
        with pytest.raises(UserError, match=rf"fold_{fold}\.parquet: .*03_infer\.py --fold {fold}"):
            fold_files(tmp_path, 3)
        (tmp_path / f"fold_{fold}.parquet").touch()
    assert list(fold_files(tmp_path, 3)) == [0, 1, 2]
    assert fold_files(tmp_path, 1) == {0: tmp_path / "fold_0.parquet"}
    for count in (0, -1):
        with pytest.raises(UserError, match="at least 1"):
            fold_files(tmp_path, count)
    with pytest.raises(UserError, match=r"run 03_infer\.py first"):
        fold_files(tmp_path / "none", None)


SPLITS, COUNTS = {"valid": ["b"], "test": ["a"], "train": ["c"]}, {"a": 2, "b": 3, "c": 1}


def every_score(permutations: int = 2) -> pl.DataFrame:
    """Rows of a fold of ``SPLITS`` and ``COUNTS``; a score is ten configurations and a round."""
    rows = [
        (split, graph, config, permutation, 10.0 * config + permutation)
        for split, graphs in SPLITS.items()
        for graph in graphs
        for config in range(COUNTS[graph])
        for permutation in range(permutations)
    ]
    return pl.DataFrame(rows, schema=list(COLUMNS), orient="row").sample(
        fraction=1, shuffle=True, seed=0
    )


@pytest.mark.parametrize("permutations", [1, 2])
def test_read_scores_averages_over_permutations(tmp_path, permutations):
    write_parquet(every_score(permutations), tmp_path / "scores")
    found = read_scores(tmp_path / "scores", SPLITS, COUNTS)
    more = (permutations - 1) / 2
    valid = [("valid", "b", config, 10 * config + more) for config in range(3)]
    test = [("test", "a", config, 10 * config + more) for config in range(2)]
    assert found.rows() == [*test, ("train", "c", 0, more), *valid]


def of(graph: str, config: int) -> pl.Expr:
    return (pl.col("graph") == graph) & (pl.col("config") == config)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.with_columns(score=pl.lit(None)), "score: found an empty cell"),
        (lambda s: s.with_columns(score=pl.lit(float("nan"))), "score: .* not finite"),
        (lambda s: s.filter(pl.col("graph") != "b"), "valid: found no b"),
        (lambda s: s.with_columns(graph=pl.lit("z")), "test z: found 2"),
        (lambda s: s.with_columns(split=pl.lit("test")), "test: found b, which is not"),
        (lambda s: s.filter(~of("b", 2)), "valid b: found 2 configurations, 0 to 1, equally"),
        (
            lambda s: pl.concat([s, s.filter(of("a", 1))]),
            "test a: found 2 configurations, 0 to 1, unequally",
        ),
    ],
)
def test_scores_that_cannot_be_believed(tmp_path, change, message):
    path = tmp_path / "fold_0.parquet"
    write_parquet(change(every_score()), path)
    with pytest.raises(DataError, match=rf"fold_0\.parquet: {message}.*run 03_infer\.py again"):
        read_scores(path, SPLITS, COUNTS)
