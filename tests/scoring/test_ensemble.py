"""Choosing folds, blending and the evaluation."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from lib.cache.graph import CachedGraph
from lib.cache.reader import Cache
from lib.ranking.baseline import moved_bytes
from lib.ranking.blending import choose_folds, places_of
from lib.ranking.measures import LAYOUTS
from lib.ranking.metrics import kendall_tau, ranking_metrics
from lib.ranking.truth import CachedLabels, Truth
from lib.scoring.evaluation import ceilings, evaluate, ordered, summary_table
from tests.builders import cache_of
from tests.graphs import compress
from tests.synthetic import layout_graph


def frame(scores: dict[str, list[float]], split: str = "test") -> pl.DataFrame:
    rows = [(split, g, c, s) for g, column in scores.items() for c, s in enumerate(column)]
    return pl.DataFrame(rows, schema=["split", "graph", "config", "score"], orient="row")


def test_choose_folds():
    validation = {0: 0.1, 1: 0.5, 2: -0.3, 3: 0.5, 4: 0.2}
    assert choose_folds(validation, 4, True) == [1, 3, 4, 0]
    assert choose_folds(validation, 1, True) == [1]
    assert choose_folds(validation, 9, True) == [1, 3, 4, 0, 2]
    assert choose_folds(validation, 2, False) == [2, 0]


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
    return cache_of(tmp_path_factory.mktemp("cache"), graphs.values())


def measured(graph: str, rounds: list[list[int]]) -> pl.DataFrame:
    rows = [("test", graph, c, min(r), r) for c, r in enumerate(rounds)]
    columns = ["split", "graph", "config", "runtime", "rounds"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def test_ceilings():
    rounds = [[1, 9, 5], [4, 8, 3], [2, 7, 6]]  # halves: rounds 0 and 2, round 1
    expected = kendall_tau(np.array([1, 3, 2]), np.array([9, 8, 7]))
    assert ceilings(measured("a", rounds)) == {"a": pytest.approx(expected)}
    assert ceilings(measured("a", [[1], [2]])) == ceilings(measured("a", [[1, 2], [3]])) == {}
    assert ceilings(None) == {}


def test_evaluate(cache, graphs):
    rng = np.random.default_rng(0)
    columns = {name: rng.normal(size=20).tolist() for name in ("train", "valid", "test")}
    truth = Truth(CachedLabels(cache))
    found = evaluate(ordered(frame(columns), cache), cache, truth, {}, LAYOUTS)
    assert set(found["graphs"]) == {"train", "valid"}
    for name, row in found["graphs"].items():
        set_by = graphs[name].layouts_set
        baseline = places_of(moved_bytes(graphs[name])[graphs[name].original], set_by)
        assert row == {
            **ranking_metrics(np.array(columns[name]), truth.runtimes(name)),
            "baseline_tau": kendall_tau(baseline, truth.runtimes(name)),
        }
        assert row["baseline_tau"] > 0.9
    for key, value in found["mean"].items():
        assert value == pytest.approx(np.mean([row[key] for row in found["graphs"].values()]))
    for part in ({"test": columns["test"]}, {}):
        assert evaluate(ordered(frame(part), cache), cache, truth, {}, LAYOUTS) == {}


@pytest.mark.parametrize("labelled", [True, False])
def test_what_has_no_order_is_left_out_and_named_once(tmp_path, labelled):
    """A graph whose configurations are all the same has runtimes that differ all the same."""
    same, other = layout_graph("same", 0), layout_graph("other", 1)
    same.node_config_feat[:] = same.node_config_feat[:1]
    runtimes = {graph.name: graph.config_runtime.copy() for graph in (same, other)}
    for graph in () if labelled else (same, other):
        graph.config_runtime[:] = 0
    cache = cache_of(tmp_path, (compress(graph, "test", hops=1) for graph in (same, other)))
    apart = [measured(name, [[r] for r in own.tolist()]) for name, own in runtimes.items()]
    truth = Truth(CachedLabels(cache), None if labelled else pl.concat(apart))
    scores = ordered(frame({name: list(range(20)) for name in runtimes}), cache)
    found = evaluate(scores, cache, truth, {}, LAYOUTS)
    assert (set(found["graphs"]), found["left_out"]) == ({"other"}, ["same"])
    text = summary_table({"validation": found, "test": found}, LAYOUTS.columns)
    assert text.count("same") - text.count("are all the same") == 1
    alone = evaluate(scores.filter(pl.col("graph") == "same"), cache, truth, {}, LAYOUTS)
    assert alone == {"left_out": ["same"]}
    assert summary_table({"test": alone}, LAYOUTS.columns).endswith(": same")
