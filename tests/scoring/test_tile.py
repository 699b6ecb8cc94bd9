"""Measuring and submitting tile collections."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest

from lib.cache.reader import Cache
from lib.ranking.blending import places_of
from lib.ranking.measures import TILES
from lib.ranking.metrics import random_best, tile_score
from lib.ranking.truth import CachedLabels, Truth
from lib.scoring.evaluation import evaluate, ordered, summary_table
from lib.scoring.submission import submission_lines
from tests.builders import cache_of
from tests.kernels import cached_kernel


def frame(scores: dict[str, list[float]]) -> pl.DataFrame:
    rows = [(g, c, float(s)) for g, column in scores.items() for c, s in enumerate(column)]
    return pl.DataFrame(rows, schema=["graph", "config", "score"], orient="row")


@pytest.mark.parametrize(
    ("scores", "row"),
    [
        ([6, 5, 4, 3, 2, 1, 0], "6;5;4;3;2"),
        ([1, 1, 1, 1, 1, 1, 1], "0;1;2;3;4"),  # equal rows: still distinct configurations
        ([2, 1, 3], "1;0;2"),
        ([7], "0"),
    ],
)
def test_a_row_lists_the_best_five(scores, row):
    places = places_of(np.array(scores), np.zeros(len(scores)))
    rows = pl.DataFrame({"graph": "k.1", "config": range(len(scores)), "place": places})
    found = submission_lines(rows, "tile:xla", {"k.1": len(scores)}, TILES.listed)
    assert found == [("tile:xla:k.1", row)]


@pytest.fixture
def cache(tmp_path) -> Cache:
    bare = cached_kernel("bare", 1, configurations=9)
    test = replace(bare, name="test", split="test", runtime=np.zeros(9, np.int64))
    kernels = cached_kernel("a", 0), replace(bare, normalizer=np.zeros(9, np.int64)), test
    return cache_of(tmp_path, kernels, "tile")


def test_evaluate(cache):
    truth = Truth(CachedLabels(cache))
    rng = np.random.default_rng(0)
    columns = {"a": rng.random(40), "bare": rng.random(9), "test": rng.random(9)}
    found = evaluate(ordered(frame(columns), cache), cache, truth, {}, TILES)
    assert set(found["graphs"]) == {"a", "bare"}
    for name, row in found["graphs"].items():
        area = cache.graph(name).config_feat[:, 15]
        assert row["tile_score"] == tile_score(columns[name], truth.runtimes(name))
        assert row["baseline_tile_score"] == tile_score(-area, truth.runtimes(name))
        assert row["random_tile_score"] == 2 - random_best(truth.runtimes(name), 5)
    mean = np.mean([row["tile_score"] for row in found["graphs"].values()])
    assert found["mean"]["tile_score"] == pytest.approx(mean)
    text = summary_table({"validation": found}, TILES.columns)
    header, line = text.splitlines()
    heads = "graphs M_tile random baseline top-1 top-5 top-10 speed-up possible"
    assert header.split() == heads.split()
    assert line.split()[:3] == ["validation", "2", f"{mean:.3f}"]
