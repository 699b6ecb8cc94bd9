"""Choosing folds, blending, the submission and the evaluation."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lib.baseline import moved_bytes
from lib.blending import blend_frames, choose_folds
from lib.cache.graph import CachedGraph
from lib.cache.reader import Cache
from lib.cache.writer import CacheWriter
from lib.ensemble.blend import fold_files, read_scores
from lib.ensemble.evaluation import ceilings, evaluate, summary_table, true_runtimes
from lib.ensemble.submission import submission_rows, write_submission
from lib.errors import DataError, UserError
from lib.metrics import kendall_tau, ranking_metrics
from lib.preprocess.layout import compress

from ..synthetic import layout_graph


def frame(scores: dict[str, list[float]], split: str = "test") -> pl.DataFrame:
    rows = [(split, g, c, s) for g, column in scores.items() for c, s in enumerate(column)]
    return pl.DataFrame(rows, schema=["split", "graph", "config", "score"], orient="row")


def test_choose_folds():
    validation = {0: 0.1, 1: 0.5, 2: -0.3, 3: 0.5, 4: 0.2}
    assert choose_folds(validation, 4) == [1, 3, 4, 0]
    assert choose_folds(validation, 1) == [1]
    assert choose_folds(validation, 9) == [1, 3, 4, 0, 2]


def test_fold_files(tmp_path):
    for name in ("fold_10.parquet", "fold_2.parquet", ".partial-a-fold_1.parquet", "fold_0.txt"):
        (tmp_path / name).touch()
    assert list(fold_files(tmp_path, None)) == [2, 10]
    assert fold_files(tmp_path, 3) == {2: tmp_path / "fold_2.parquet"}
    with pytest.raises(UserError, match=r"03_infer\.py"):
        fold_files(tmp_path, 2)


def test_read_scores_averages_over_permutations(tmp_path):
    scores = pl.DataFrame(
        {
            "split": ["test"] * 4,
            "graph": ["a"] * 4,
            "config": [0, 1, 0, 1],
            "permutation": [0, 0, 1, 1],
            "score": [1.0, 2.0, 3.0, 8.0],
        }
    )
    scores.write_parquet(tmp_path / "scores")
    found = read_scores(tmp_path / "scores")
    assert found.rows() == [("test", "a", 0, 2.0), ("test", "a", 1, 5.0)]


@pytest.mark.parametrize("damage", ["missing", "garbage", "column", "nan", "infinite"])
def test_scores_that_cannot_be_believed(tmp_path, damage):
    path = tmp_path / "fold_0.parquet"
    scores = frame({"a": [1.0, 2.0]}).with_columns(permutation=0)
    if damage == "garbage":
        path.write_bytes(b"PAR1")
    elif damage == "column":
        scores.drop("config").write_parquet(path)
    elif damage != "missing":
        value = float("nan") if damage == "nan" else float("inf")
        scores.with_columns(score=pl.Series([1.0, value])).write_parquet(path)
    with pytest.raises(DataError, match=r"fold_0\.parquet"):
        read_scores(path)


def test_blend_is_the_mean_over_folds():
    folds = [frame({"b": [1, 2], "a": [0, 4]}), frame({"b": [3, 8]}).reverse()]
    assert blend_frames(folds).rows() == [("a", 0, 0), ("a", 1, 4), ("b", 0, 2), ("b", 1, 5)]


def test_submission_rows_are_ordered_by_score_then_position():
    scores = frame({"b.v1": [0.5, -1, 0.5, 0], "a": [3.0, 2.0]})
    rows = submission_rows(scores, "layout:xla:default", {"b.v1": 4, "a": 2})
    assert rows == [("layout:xla:default:a", "1;0"), ("layout:xla:default:b.v1", "1;3;0;2")]


@pytest.mark.parametrize("counts", [{"a": 3}, {"a": 1}, {"a": 2, "b": 1}])
def test_a_submission_that_lacks_configurations_is_refused(counts):
    with pytest.raises(DataError, match="scores"):
        submission_rows(frame({"a": [1.0, 2.0]}), "layout:xla:default", counts)


def test_a_submission_that_repeats_a_configuration_is_refused():
    twice = pl.concat([frame({"a": [1.0, 2.0]})] * 2)
    with pytest.raises(DataError, match="scores"):
        submission_rows(twice, "layout:xla:default", {"a": 2})


def test_the_file_that_kaggle_scores(tmp_path):
    write_submission(tmp_path / "a.csv", [("layout:xla:default:a", "1;0"), ("b", "0")])
    text = (tmp_path / "a.csv").read_text()
    assert text == "ID,TopConfigs\nlayout:xla:default:a,1;0\nb,0\n"
    write_submission(tmp_path / "a.csv", [])
    assert (tmp_path / "a.csv").read_text() == "ID,TopConfigs\n"


@pytest.fixture(scope="module")
def graphs() -> dict[str, CachedGraph]:
    made = {}
    for index, split in enumerate(("train", "valid", "test")):
        made[split] = compress(layout_graph(split, index), split, hops=1)
    zero = np.zeros_like(made["test"].runtime)
    made["test"] = CachedGraph(**{**vars(made["test"]), "runtime": zero})
    return made


@pytest.fixture(scope="module")
def cache(tmp_path_factory, graphs) -> Cache:
    folder = tmp_path_factory.mktemp("cache")
    writer = CacheWriter(folder)
    for graph in graphs.values():
        writer.add(graph, {})
    writer.finish({"fingerprint": "0", "settings": {}})
    return Cache(folder)


def measured(graph: str, rounds: list[list[int]]) -> pl.DataFrame:
    rows = [("test", graph, c, min(r), r) for c, r in enumerate(rounds)]
    columns = ["split", "graph", "config", "runtime", "rounds"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def test_true_runtimes(cache, graphs):
    known = true_runtimes(cache, None)
    assert set(known) == {"train", "valid"}
    graph = graphs["train"]
    assert np.array_equal(known["train"], graph.runtime[graph.original])
    rounds = np.random.default_rng(0).integers(5, 99, (20, 3)).tolist()
    apart = measured("test", rounds).sample(fraction=1, shuffle=True, seed=0)
    assert true_runtimes(cache, apart)["test"].tolist() == [min(r) for r in rounds]
    assert "test" not in true_runtimes(cache, measured("test", rounds[:-1]))


def test_ceilings():
    rounds = [[1, 9, 5], [4, 8, 3], [2, 7, 6]]  # halves: rounds 0 and 2, round 1
    expected = kendall_tau(np.array([1, 3, 2]), np.array([9, 8, 7]))
    assert ceilings(measured("a", rounds)) == {"a": pytest.approx(expected)}
    assert ceilings(measured("a", [[1], [2]])) == {}
    assert ceilings(None) == {}


def test_ceilings_of_uneven_rounds_do_not_stop_the_report():
    table = pl.concat([measured("even", [[1, 2], [3, 4]]), measured("uneven", [[1, 2], [3]])])
    assert ceilings(table)["even"] == pytest.approx(1)


def test_evaluate(cache, graphs):
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=20).tolist() for name in ("train", "valid", "test")}
    truth = true_runtimes(cache, None)
    found = evaluate(frame(columns), cache, truth, {})
    assert set(found["graphs"]) == {"train", "valid"}
    for name, row in found["graphs"].items():
        baseline = moved_bytes(graphs[name])[graphs[name].original]
        assert row == {
            **ranking_metrics(np.array(columns[name]), truth[name]),
            "baseline_tau": kendall_tau(baseline, truth[name]),
        }
        assert row["baseline_tau"] > 0.9
    for key, value in found["mean"].items():
        assert value == pytest.approx(np.mean([row[key] for row in found["graphs"].values()]))
    assert evaluate(frame({"test": columns["test"]}), cache, truth, {}) == {}
    assert evaluate(frame({}), cache, truth, {}) == {}


@pytest.mark.parametrize("known", [{"train": 0.5}, {"valid": 0.5}])
def test_a_ceiling_that_only_some_graphs_have(cache, known):
    columns = {name: list(range(20)) for name in ("train", "valid")}
    found = evaluate(frame(columns), cache, true_runtimes(cache, None), known)
    assert found["mean"]["ceiling"] == 0.5
    assert {n: row["ceiling"] for n, row in found["graphs"].items() if "ceiling" in row} == known


def test_summary_table():
    mean = {
        **{"tau": 0.5, "baseline_tau": 0.25, "ordered_pair_accuracy": 0.75},
        **{"top_1_slowdown": 0.1, "top_5_slowdown": 0.02, "top_10_slowdown": 0.0},
    }
    text = summary_table([("validation", {"mean": mean, "graphs": {"a": {}}}), ("test", {})])
    header, line = text.splitlines()
    assert header.split() == [
        *("graphs", "tau", "baseline", "ceiling", "pairs", "top-1", "top-5", "top-10")
    ]
    assert line.split() == [
        "validation",
        "1",
        "0.500",
        "0.250",
        "-",
        "0.750",
        "10.0%",
        "2.0%",
        "0.0%",
    ]
