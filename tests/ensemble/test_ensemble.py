"""Choosing folds, blending, the submission and the evaluation."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lib.cache.graph import CachedGraph
from lib.cache.reader import Cache
from lib.cache.writer import CacheWriter
from lib.ensemble.blend import COLUMNS, fold_files, read_scores
from lib.ensemble.evaluation import ceilings, evaluate, summary_table
from lib.ensemble.submission import submission_lines, write_submission
from lib.files.errors import DataError, UserError
from lib.files.parquet import write_parquet
from lib.preprocess.graphs import compress
from lib.ranking.baseline import moved_bytes
from lib.ranking.blending import blend_frames, choose_folds
from lib.ranking.kinds import KINDS
from lib.ranking.metrics import kendall_tau, ranking_metrics
from lib.ranking.truth import CachedLabels, Truth
from tests.synthetic import layout_graph

LAYOUT = KINDS["layout"]


def frame(scores: dict[str, list[float]], split: str = "test") -> pl.DataFrame:
    rows = [(split, g, c, s) for g, column in scores.items() for c, s in enumerate(column)]
    return pl.DataFrame(rows, schema=["split", "graph", "config", "score"], orient="row")


def test_choose_folds():
    validation = {0: 0.1, 1: 0.5, 2: -0.3, 3: 0.5, 4: 0.2}
    assert choose_folds(validation, 4) == [1, 3, 4, 0]
    assert choose_folds(validation, 1) == [1]
    assert choose_folds(validation, 9) == [1, 3, 4, 0, 2]


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


def test_training_graphs_may_be_left_out(tmp_path):
    write_parquet(every_score().filter(pl.col("split") != "train"), tmp_path / "scores")
    assert set(read_scores(tmp_path / "scores", SPLITS, COUNTS)["split"]) == {"valid", "test"}


def of(graph: str, config: int) -> pl.Expr:
    return (pl.col("graph") == graph) & (pl.col("config") == config)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.drop("config"), "config: found no such column"),
        (lambda s: s.with_columns(score=pl.lit("1")), "score: found String"),
        (lambda s: s.with_columns(config=pl.lit(0.5)), "config: found Float64"),
        (lambda s: s.with_columns(graph=pl.lit(1)), "graph: found Int32"),
        (lambda s: s.with_columns(score=pl.lit(None)), "score: found an empty cell"),
        (lambda s: s.with_columns(score=pl.lit(float("nan"))), "score: .* not finite"),
        (lambda s: s.with_columns(score=pl.lit(float("inf"))), "score: .* not finite"),
        (lambda s: s.clear(), "test: found no a"),
        (lambda s: s.filter(pl.col("graph") != "b"), "valid: found no b"),
        (lambda s: s.with_columns(graph=pl.lit("z")), "test z: found 2"),
        (lambda s: s.with_columns(split=pl.lit("dev")), "dev: found a"),
        (lambda s: pl.concat([s, s.with_columns(graph=pl.lit("z"))]), "test z: found 2"),
        (lambda s: s.with_columns(split=pl.lit("test")), "test: found b, which is not"),
        (lambda s: s.filter(~of("b", 2)), "valid b: found 2 configurations, 0 to 1, equally"),
        (lambda s: s.filter(~of("b", 1)), "valid b: found 2 configurations, 0 to 2"),
        (
            lambda s: pl.concat([s, s.filter(of("a", 1))]),
            "test a: found 2 configurations, 0 to 1, unequally",
        ),
        (lambda s: s.with_columns(config=pl.col("config") + 1), "test a: .* 1 to 2"),
        (lambda s: s.with_columns(config=pl.col("config") - 1), "test a: .* -1 to 0"),
        (
            lambda s: s.with_columns(permutation=pl.lit(0)),
            "test a: found 2 configurations, 0 to 1, uneq",
        ),
        (
            lambda s: s.filter(~(of("b", 0) & (pl.col("permutation") == 1))),
            "valid b: found 3 configurations, 0 to 2, unequally",
        ),
    ],
)
def test_scores_that_cannot_be_believed(tmp_path, change, message):
    path = tmp_path / "fold_0.parquet"
    write_parquet(change(every_score()), path)
    with pytest.raises(DataError, match=rf"fold_0\.parquet: {message}.*run 03_infer\.py again"):
        read_scores(path, SPLITS, COUNTS)


@pytest.mark.parametrize("damage", ["missing", "garbage", "flipped", "another tool's"])
def test_scores_that_are_damaged(tmp_path, damage):
    path = tmp_path / "fold_0.parquet"
    write_parquet(every_score(), path)
    content = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "garbage":
        path.write_bytes(b"PAR1")
    elif damage == "flipped":
        path.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])
    else:
        every_score().write_parquet(path)
    with pytest.raises(DataError, match=r"fold_0\.parquet: .*run 03_infer\.py again"):
        read_scores(path, SPLITS, COUNTS)


def test_blend_is_the_mean_over_folds():
    folds = [frame({"b": [1, 2], "a": [0, 4]}), frame({"b": [3, 8]}).reverse()]
    assert blend_frames(folds).rows() == [("a", 0, 0), ("a", 1, 4), ("b", 0, 2), ("b", 1, 5)]


def test_submission_rows_are_ordered_by_score_then_position():
    scores = frame({"b.v1": [0.5, -1, 0.5, 0], "a": [3.0, 2.0]})
    rows = submission_lines(scores, "layout:xla:default", {"b.v1": 4, "a": 2})
    assert rows == [("layout:xla:default:a", "1;0"), ("layout:xla:default:b.v1", "1;3;0;2")]


@pytest.mark.parametrize("counts", [{"a": 3}, {"a": 1}, {"a": 2, "b": 1}])
def test_a_submission_that_lacks_configurations_is_refused(counts):
    with pytest.raises(DataError, match="scores"):
        submission_lines(frame({"a": [1.0, 2.0]}), "layout:xla:default", counts)


def test_a_submission_that_repeats_a_configuration_is_refused():
    twice = pl.concat([frame({"a": [1.0, 2.0]})] * 2)
    with pytest.raises(DataError, match="scores"):
        submission_lines(twice, "layout:xla:default", {"a": 2})


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
    truth = Truth(CachedLabels(cache))
    found = evaluate(frame(columns), cache, truth, {}, LAYOUT)
    assert set(found["graphs"]) == {"train", "valid"}
    for name, row in found["graphs"].items():
        baseline = moved_bytes(graphs[name])[graphs[name].original]
        assert row == {
            **ranking_metrics(np.array(columns[name]), truth.runtimes(name)),
            "baseline_tau": kendall_tau(baseline, truth.runtimes(name)),
        }
        assert row["baseline_tau"] > 0.9
    for key, value in found["mean"].items():
        assert value == pytest.approx(np.mean([row[key] for row in found["graphs"].values()]))
    assert evaluate(frame({"test": columns["test"]}), cache, truth, {}, LAYOUT) == {}
    assert evaluate(frame({}), cache, truth, {}, LAYOUT) == {}


@pytest.mark.parametrize("known", [{"train": 0.5}, {"valid": 0.5}])
def test_a_ceiling_that_only_some_graphs_have(cache, known):
    columns = {name: list(range(20)) for name in ("train", "valid")}
    found = evaluate(frame(columns), cache, Truth(CachedLabels(cache)), known, LAYOUT)
    assert found["mean"]["ceiling"] == 0.5
    assert {n: row["ceiling"] for n, row in found["graphs"].items() if "ceiling" in row} == known


def test_summary_table():
    mean = {
        "tau": 0.5,
        "baseline_tau": 0.25,
        "ordered_pair_accuracy": 0.75,
        "top_1_slowdown": 0.1,
        "top_5_slowdown": 0.02,
        "top_10_slowdown": 0.0,
    }
    sections = {"validation": {"mean": mean, "graphs": {"a": {}}}, "test": {}}
    text = summary_table(sections, LAYOUT.columns)
    header, line = text.splitlines()
    assert header.split() == [
        "graphs",
        "tau",
        "baseline",
        "ceiling",
        "pairs",
        "top-1",
        "top-5",
        "top-10",
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
