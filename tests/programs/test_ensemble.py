"""Folds of predictions to one table: complete, blended, measured over pairs."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lib.files.artifacts import write_json
from lib.files.errors import DataError
from lib.files.parquet import write_parquet
from lib.programs.ensemble import ENSEMBLE, expected_of, pairs_of, prediction_table
from lib.programs.folds import sides_of_fold
from lib.programs.infer import predict_programs, programs_to_predict
from lib.programs.predictions import SCHEMA, nearest
from lib.ranking.blending import choose_folds
from lib.runs.stage import stage_script
from lib.training.fold import load_fold, new_network
from tests.programs.builders import tiny_settings, write_programs


@pytest.fixture(scope="module", params=["networks", "random"])
def settings(request):
    return tiny_settings(split=request.param)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return write_programs(tmp_path_factory.mktemp("ensemble"), tasks=15, programs=20)


@pytest.fixture
def folder(cache, settings, tmp_path):
    """What stages 2 and 3 leave, with networks that learned nothing."""
    (tmp_path / "scores").mkdir()
    for fold in range(2):
        data = load_fold(cache, fold, settings)
        network = new_network(data, 0, fold)
        frames = predict_programs(
            network, cache, programs_to_predict(cache, fold, settings), settings
        )
        write_parquet(pl.concat(frames), tmp_path / "scores" / f"fold_{fold}.parquet")
        metrics = {"data": cache.fingerprint, "validation": {"mape": 0.3 - 0.1 * fold}}
        write_json(tmp_path / f"fold_{fold}" / "metrics.json", metrics)
    return tmp_path


def blended(folder, cache, settings):
    validation, scores = ENSEMBLE.read(folder, cache, settings, None)
    best = choose_folds(validation, settings.best_folds, settings.higher_is_better)
    return best, stage_script("ensemble").blended_scores(scores, best, settings.blending)


def test_predictions_cover_every_program_that_is_held_out(folder, cache, settings):
    best, frames = blended(folder, cache, settings)
    assert best == [1, 0]  # the lower error first
    rows = prediction_table(frames, cache)
    keys = rows.select("split", "task", "program", "device")
    assert keys.is_unique().all()
    for fold in range(2):
        wanted = expected_of(pairs_of(cache), sides_of_fold(cache, fold, settings))
        due = wanted.filter(pl.col("split") != "train").select(keys.columns)
        assert len(due.join(keys, on=keys.columns)) == len(due)


def test_folds_are_blended_by_their_logarithms(folder, cache, settings):
    _, frames = blended(folder, cache, settings)
    rows = prediction_table(frames, cache).filter(split="test")
    both = [
        pl.read_parquet(folder / "scores" / f"fold_{fold}.parquet").filter(split="test")
        for fold in range(2)
    ]
    keys = ["task", "program", "device"]
    joined = both[0].join(both[1], on=keys).join(rows, on=keys, suffix="_mean").sort(keys)
    mean = (joined["prediction"] * joined["prediction_right"]).sqrt()
    np.testing.assert_allclose(joined["in_sums"], mean, rtol=1e-5)
    variance = (joined["prediction"] / joined["prediction_right"]).log() ** 2 / 2
    np.testing.assert_allclose(joined["prediction_mean"], mean * (-variance).exp(), rtol=1e-5)
    assert (joined["latency"] == joined["latency_mean"]).all()


def test_the_nearest_prediction_has_the_least_relative_error():
    latencies = np.exp(np.random.default_rng(0).normal(-8.0, 0.4, 100_000))
    frame = pl.DataFrame({"mean": [-8.0], "variance": [0.16]})
    best = frame.select(nearest(pl.col("mean"), pl.col("variance"))).item()
    errors = {
        times: np.abs(times * best / latencies - 1).mean() for times in np.arange(0.7, 1.3, 0.05)
    }
    assert min(errors, key=errors.get) == pytest.approx(1.0)


BROKEN = {
    "one is missing": lambda rows: rows[1:],
    "one is there twice": lambda rows: pl.concat([rows, rows[:1]]),
    "another program": lambda rows: rows.with_columns(program=pl.col("program") + 1),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_damaged_fold_is_told(folder, cache, settings, name):
    path = folder / "scores" / "fold_0.parquet"
    write_parquet(BROKEN[name](pl.read_parquet(path)).cast(SCHEMA), path)
    with pytest.raises(DataError) as error:
        ENSEMBLE.read(folder, cache, settings, None)
    assert str(path) in str(error.value) and "\n" not in str(error.value)
