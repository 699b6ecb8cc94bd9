"""Outputs of a collection written by hand: known numbers, no training."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl

from lib.files.artifacts import write_json
from lib.files.parquet import write_parquet
from lib.ranking.metrics import mean_metrics
from lib.report.experiment import read_experiment
from lib.report.page import write_page
from tests.builders import COLLECTION

ABOUT = {
    "collection": COLLECTION,
    "data": "d" * 64,
    "epochs": 4,
    "permutations": 10,
    "learning_rate": 0.005,
    "versions": {"python": "3.11", "torch": "2.0"},
}


def graph_row(
    tau: float, baseline: float = 0.4, ceiling: float = 0.8, speedup: float | None = None
) -> dict[str, float]:
    """A graph's numbers in ``metrics.json``, with what the pick gains if that is known."""
    slowdowns = {f"top_{k}_slowdown": 0.1 / k for k in (1, 5, 10)}
    own = {"tau": tau, "baseline_tau": baseline, "ceiling": ceiling, **slowdowns}
    if speedup is not None:
        own |= {"log_speedup": math.log1p(speedup), "best_log_speedup": math.log1p(0.1)}
    return own


def write_report(folder: Path) -> Path:
    """Write the report of the results in a folder; returns the file."""
    write_page(folder / "report.html", read_experiment(folder))
    return folder / "report.html"


def section(rows: dict[str, dict[str, float]]) -> dict:
    """A section of ``metrics.json``."""
    return {"mean": mean_metrics(list(rows.values())), "graphs": rows} if rows else {}


def write_outputs(
    folder: Path,
    validation: dict[str, dict[str, float]],
    test: dict[str, dict[str, float]] | None = None,
    folds: int = 2,
    **settings: object,
) -> Path:
    """Write metrics, folds, histories and scores of 12 configurations a graph.

    Args:
        folder: the collection's.
        validation, test: rows of :func:`graph_row` by graph; dealt to the folds in turn.
        folds: how many were trained.
        settings: that differ from ``ABOUT``.
    """
    about = {**ABOUT, **settings}
    sections = {"validation": section(validation), "test": section(test or {}), "training": {}}
    chosen = {"blended": list(range(folds)), "validation_tau": {}}
    write_json(folder / "metrics.json", {**sections, "folds": chosen, "settings": about})
    for fold in range(folds):
        one = {"epoch": 4, "tau": 0.5 + fold / 10, "graphs": {}}
        metrics = {**about, "fold": fold, "identity": "a" * 64}
        best = {**one, "epoch": 2, "tau": 0.7}
        path = folder / f"fold_{fold}" / "metrics.json"
        write_json(path, {**metrics, "last": one, "best": best, "validation": one})
        write_parquet(_history(fold), folder / f"fold_{fold}" / "history.parquet")
        own = sorted(validation)[fold::folds]
        frames = [_scores("valid", name) for name in own]
        frames += [_scores("test", name, labelled=False) for name in test or {}]
        (folder / "scores").mkdir(exist_ok=True)
        if frames:
            write_parquet(pl.concat(frames), folder / "scores" / f"fold_{fold}.parquet")
    return folder


def _history(fold: int) -> pl.DataFrame:
    epochs = np.arange(1, 5)
    return pl.DataFrame(
        {
            "epoch": epochs,
            "loss": 1 / epochs + fold / 10,
            "gradient_norm": 0.5 / epochs,
            "learning_rate": 0.005 * epochs,
            "validation_tau": 0.1 * epochs,
            "seconds": np.ones(4),
        }
    )


def _scores(split: str, name: str, labelled: bool = True) -> pl.DataFrame:
    order = np.random.default_rng(len(name)).permutation(12)
    return pl.DataFrame(
        {
            "split": split,
            "graph": name,
            "config": np.arange(12, dtype=np.int32),
            "permutation": np.zeros(12, np.int16),
            "score": order.astype(float),
            "runtime": (1_000_000 + 1000 * order).tolist() if labelled else [None] * 12,
        },
        schema_overrides={"runtime": pl.Int64},
    )
