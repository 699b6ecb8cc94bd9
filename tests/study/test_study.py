"""What a study computes from scores; tests/test_pipeline.py runs a real one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
import pytest

from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.ranking.metrics import kendall_tau
from lib.ranking.truth import Truth
from lib.scoring.folds import Folds
from lib.settings import PlusSettings
from lib.study.nested import cache_view, link_others, splits_of_parts, stage_flags, train_and_score
from lib.study.results import blending_rows, study_text, summarize
from tests.builders import split_cache, tiny_settings


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Cache:
    return split_cache(tmp_path_factory.mktemp("study") / "cache", 40)


@dataclass(frozen=True)
class Known:
    """Labels of graphs that are nowhere but here."""

    labels: dict[str, np.ndarray]

    def runtimes(self, graph: str) -> np.ndarray | None:
        return self.labels.get(graph)

    def count(self, graph: str) -> int | None:
        return None

    def alike(self, graph: str) -> bool:
        return graph == "alike"


def test_a_view_shows_some_graphs_in_other_splits(cache, tmp_path):
    splits = {"g0": "test", "g1": "train"}
    cache_view(cache, tmp_path / "a", splits)
    view = Cache(tmp_path / "a")
    assert (view.names("test"), view.names("train")) == (["g0"], ["g1"])
    assert view.fingerprint != cache.fingerprint
    for name in splits:
        assert np.array_equal(view.graph(name).cells, cache.graph(name).cells)
        assert np.array_equal(view.graph(name).runtime, cache.graph(name).runtime)
    cache_view(cache, tmp_path / "b", {"g0": "train", "g1": "train"})
    assert Cache(tmp_path / "b").fingerprint != view.fingerprint


def test_no_study_ever_sees_the_test_split(cache):
    parts = splits_of_parts(cache, tiny_settings(), 3)
    assert all(set(splits) == set(cache.names("train", "valid")) for splits in parts)
    held = [name for splits in parts for name, split in splits.items() if split == "test"]
    assert sorted(held) == cache.names("train", "valid")  # each graph in one part


def test_a_stage_that_fails_is_told(tmp_path):
    with pytest.raises(UserError, match=r"study: 02_train\.py failed: .*no cache there"):
        train_and_score(["--collection", "layout-xla-default", "--outputs", str(tmp_path)], 0)


def test_stage_flags_say_every_setting(tmp_path):
    flags = stage_flags(tiny_settings(score_training=True), tmp_path, tmp_path)
    assert "--channels=16" in flags
    assert flags[-1] == "--no-score-training" and "--score-training" not in flags


def scores_of(split: str, **graphs: list[float]) -> pl.DataFrame:
    """What stage 4 reads of a fold."""
    rows = [
        (split, graph, config, score)
        for graph, scores in graphs.items()
        for config, score in enumerate(scores)
    ]
    return pl.DataFrame(rows, schema=["split", "graph", "config", "score"], orient="row")


def test_folds_are_chosen_by_their_own_validation():
    runtime = np.array([1, 2, 3, 4])
    scores = {0: [1.0, 2, 3, 4], 1: [4.0, 3, 2, 1], 2: [1.0, 2, 4, 3]}
    frames = {k: scores_of("test", g=v, alike=v, unknown=v) for k, v in scores.items()}
    part = Folds({0: 0.1, 1: 0.9, 2: 0.5}, [1], frames, "mean")
    truth = Truth(Known({"g": runtime, "alike": runtime}))
    rows = list(blending_rows([part], tiny_settings(), truth))
    assert {row[2] for row in rows} == {"g"}
    found = {row[:2]: row[-1] for row in rows}
    assert len(found) == len(rows) == 4 * 3
    assert found["mean", 1] == -1  # fold 1, the best in validation, is the worst here
    for count, folds in ((2, (1, 2)), (3, (1, 2, 0))):
        mean = np.mean([scores[fold] for fold in folds], axis=0)
        assert found["mean", count] == pytest.approx(kendall_tau(mean, runtime))


def test_differences_are_paired_by_graph():
    rows = [
        (method, folds, graph, base + gain)
        for graph, base in (("a", 0.1), ("b", 0.5), ("c", 0.9))
        for method, folds, gain in (
            ("mean", 4, 0),
            ("mean", 5, 0.02),
            ("rank", 4, base / 10),
            ("rank", 5, 0),
        )
    ]
    table = summarize(rows, "mean", 4)
    assert table["default"].sum() == 1
    better = table.filter(method="mean", folds=5).row(0, named=True)
    assert better["graphs"] == 3
    assert better["score"] == pytest.approx(0.52)
    assert better["difference"] == pytest.approx(0.02)
    assert better["difference_standard_error"] == pytest.approx(0, abs=1e-12)
    assert better["standard_error"] == pytest.approx(0.4 / 3**0.5)
    text = study_text(table)
    assert "0.5000*" in text
    assert "best: method rank, folds 4: 0.5500, +0.0500 +- 0.0231" in text


def test_other_collections_are_seen_from_a_view(tmp_path):
    chosen = PlusSettings("layout-xla-default", also="layout-xla-random,layout-nlp-default")
    for path in chosen.others.values():
        (tmp_path / "outputs" / path).mkdir(parents=True)
    own = tmp_path / "study" / "part_0_of_2"
    for _ in range(2):  # a study is gone on with
        link_others(chosen, tmp_path / "outputs", own)
    assert len(chosen.others) == 2
    for path in chosen.others.values():
        assert (own / path).resolve() == tmp_path / "outputs" / path
    link_others(PlusSettings("layout-xla-default"), tmp_path / "outputs", tmp_path / "none")
    assert not (tmp_path / "none").exists()
