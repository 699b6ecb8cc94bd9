"""What the folds left: their scores of every configuration, and how well each does."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from lib.artifacts import read_json
from lib.blending import KEYS
from lib.errors import DataError, UserError

COLUMNS = ("split", "graph", "config", "permutation", "score")


def fold_files(folder: Path, count: int | None) -> dict[int, Path]:
    """The scores parquet of each fold that has one, by fold.

    Args:
        folder: the collection's ``scores``.
        count: use folds 0 to ``count`` - 1 only; ``None`` for all that are there.

    Raises:
        UserError: if there is none.
    """
    named = {path.stem.removeprefix("fold_"): path for path in folder.glob("fold_*.parquet")}
    found = {int(name): path for name, path in named.items() if name.isdigit()}
    found = {fold: path for fold, path in found.items() if count is None or fold < count}
    if not found:
        raise UserError(f"{folder}: no fold_<k>.parquet there; run 03_infer.py first")
    return dict(sorted(found.items()))


def validation_score(folder: Path, fingerprint: str, metric: str) -> float:
    """The validation score of a fold, such as its ``tau``, from its ``metrics.json``.

    Args:
        folder: the fold's.
        fingerprint: of the cache that it should be about.
        metric: which.

    Raises:
        DataError: if the file is missing, is not what stage 2 writes, or is about another cache.
    """
    path = folder / "metrics.json"
    metrics = read_json(path)
    try:
        data, score = metrics["data"], float(metrics["validation"][metric])
    except (KeyError, TypeError, ValueError):
        raise DataError(path, "validation", f"no {metric}", "what 02_train.py writes") from None
    if data != fingerprint:
        raise DataError(path, "data", "another cache's fingerprint", "this one's: train again")
    return score


def read_scores(path: Path) -> pl.DataFrame:
    """One fold's scores, averaged over permutations: ``split, graph, config, score``.

    Raises:
        DataError: if the file is not a scores parquet or a score is not finite.
    """
    try:
        scores = pl.read_parquet(path, columns=list(COLUMNS))
    except (OSError, pl.exceptions.PolarsError) as error:
        raise DataError(path, "parquet", error, f"columns {', '.join(COLUMNS)}") from None
    if not scores["score"].is_finite().all():
        raise DataError(path, "score", "a value that is not finite", "finite numbers")
    mean = scores.group_by("split", *KEYS, maintain_order=True).agg(pl.col("score").mean())
    return mean.sort("split", *KEYS)
