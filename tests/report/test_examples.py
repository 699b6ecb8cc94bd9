"""Figures show the scores that their number was computed from."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lib.files.artifacts import read_json, write_json
from lib.files.parquet import write_parquet
from lib.ranking.blending import METHODS, blend
from lib.ranking.metrics import kendall_tau
from lib.report.experiment import read_experiment
from lib.report.page import examples
from tests.report.builders import graph_row, write_outputs

CONFIGURATIONS = 12
SCALES = (1.0, 1000.0, 0.01)  # of each fold's scores: averaged plainly, only the second would count


def write_scores(folder, split: str) -> tuple[np.ndarray, np.ndarray]:
    """Random scores of one graph, ``g``, in each fold; returns them, (folds, c), and runtimes."""
    random = np.random.default_rng(0)
    scores = random.normal(size=(len(SCALES), CONFIGURATIONS)) * np.array(SCALES)[:, None]
    runtimes = random.permutation(CONFIGURATIONS) + 1000
    for fold, own in enumerate(scores):
        apart = 0.001 * SCALES[fold]  # of two permutations
        frames = [
            {"permutation": p, "score": own + sign * apart, "runtime": runtimes}
            for p, sign in enumerate((-1, 1))
        ]
        rows = [
            pl.DataFrame(one).with_columns(
                split=pl.lit(split), graph=pl.lit("g"), config=pl.int_range(CONFIGURATIONS)
            )
            for one in frames
        ]
        write_parquet(pl.concat(rows), folder / "scores" / f"fold_{fold}.parquet")
    return scores, runtimes


@pytest.mark.parametrize("method", METHODS)
def test_a_figures_scores_are_blended_as_its_number_was(tmp_path, method):
    row = {"g": graph_row(0.0)}
    folder = write_outputs(tmp_path / "c", row, row, folds=len(SCALES), blending=method)
    scores, runtimes = write_scores(folder, "test")
    expected = blend(list(scores), method)
    (found,) = examples(read_experiment(folder), "test", None)
    assert found["scores"] == pytest.approx(expected)
    assert found["runtimes"].tolist() == runtimes.tolist()
    assert kendall_tau(found["scores"], found["runtimes"]) == kendall_tau(expected, runtimes)


def test_only_the_folds_that_stage_4_measured_are_shown(tmp_path):
    row = {"g": graph_row(0.0)}
    folder = write_outputs(tmp_path / "c", row, folds=len(SCALES))
    scores, _ = write_scores(folder, "valid")
    metrics = read_json(folder / "metrics.json")
    metrics["folds"]["validation_tau"] = {"0": 0.5, "2": 0.4}
    write_json(folder / "metrics.json", metrics)
    (found,) = examples(read_experiment(folder), "validation", None)
    assert found["scores"] == pytest.approx(scores[[0, 2]].mean(axis=0))
