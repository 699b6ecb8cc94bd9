"""Scores and validation of each fold."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import polars as pl

from lib.cache.reader import Cache
from lib.files.errors import DataError, UserError
from lib.files.results import AGAIN, read_fold_metrics
from lib.files.schema import expect
from lib.files.scores import check_graphs, mean_scores, read_score_rows
from lib.ranking.folds import fold_number, splits_of_fold
from lib.settings import Settings

Folds = tuple[dict[int, float], dict[int, pl.DataFrame]]  # validation and scores, by fold


def read_folds(folder: Path, cache: Cache, settings: Settings, count: int | None) -> Folds:
    """Read what the folds left: the validation score of each, and its scores.

    Args:
        folder: of the collection's results.
        cache, settings: of the collection.
        count: use folds 0 to ``count`` - 1; ``None`` for all that are there.

    Raises:
        UserError: if a fold is missing.
        DataError: if a file of one is damaged, or of another cache.
    """
    learning, test = cache.learning, cache.names("test")

    def read(fold: int, path: Path) -> pl.DataFrame:
        return read_scores(path, splits_of_fold(learning, test, fold, settings), cache.counts)

    return folds_read_by(read, folder, cache, settings, count)


def folds_read_by(
    read: Callable[[int, Path], pl.DataFrame],
    folder: Path,
    cache: Cache,
    settings: Settings,
    count: int | None,
) -> Folds:
    """The same, of scores that ``read`` gets from the parquet of a fold."""
    files = fold_files(folder / "scores", count)
    validation = {
        fold: validation_score(folder / f"fold_{fold}", cache.fingerprint, settings.metric)
        for fold in files
    }
    return validation, {fold: read(fold, path) for fold, path in files.items()}


def fold_files(folder: Path, count: int | None) -> dict[int, Path]:
    """The scores parquet of each fold, by fold.

    Args:
        folder: the collection's ``scores``.
        count: use folds 0 to ``count`` - 1; ``None`` for all that are there.

    Raises:
        UserError: if there is none, or one of the ``count`` is missing.
    """
    if count is not None and count < 1:
        raise UserError(f"--folds {count}: must be at least 1")
    numbered = {fold_number(path.stem): path for path in folder.glob("fold_*.parquet")}
    files = {fold: numbered[fold] for fold in sorted(numbered.keys() - {None})}
    if count is None and not files:
        raise UserError(f"{folder}: no fold_<k>.parquet there; run 03_infer.py first")
    for fold in range(count or 0):
        if fold not in files:
            path = folder / f"fold_{fold}.parquet"
            raise UserError(f"{path}: no such file; run 03_infer.py --fold {fold} first")
    return {fold: path for fold, path in files.items() if count is None or fold < count}


def validation_score(folder: Path, fingerprint: str, metric: str) -> float:
    """The validation score of a fold, such as its ``tau``, from its ``metrics.json``.

    Args:
        folder: the fold's.
        fingerprint: of the cache that it should be of.
        metric: which.

    Raises:
        DataError: if the file is missing, is not what stage 2 writes, or is of another cache.
    """
    path = folder / "metrics.json"
    metrics = read_fold_metrics(path)
    if metrics["data"] != fingerprint:
        raise DataError(path, "data", "another cache's fingerprint", "this one's: train again")
    expect(metrics, {"validation": {metric: float}}, path, advice=AGAIN)
    return float(metrics["validation"][metric])


def read_scores(
    path: Path, graphs: Mapping[str, Iterable[str]], counts: Mapping[str, int]
) -> pl.DataFrame:
    """One fold's scores, averaged over permutations: ``split, graph, config, score``.

    Args:
        path: the parquet.
        graphs: those of each split, see :func:`lib.ranking.folds.splits_of_fold`.
        counts: how many configurations each graph has.

    Raises:
        DataError: if the file is damaged, a score is not finite, or scores are missing or too
            many.
    """
    scores = mean_scores(path, read_score_rows(path), counts)
    check_graphs(path, scores, graphs)
    return scores
