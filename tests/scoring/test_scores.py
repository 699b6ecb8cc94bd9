"""Scores under several groupings of a graph's configurations."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lib.cache.prune import pruned as pruned_graph
from lib.cache.reader import Cache
from lib.models.common.build import build_network
from lib.models.tgraph.inputs import graph_tensors, score_groupings
from lib.ranking.folds import assign_folds
from lib.runs.stage import stage_script
from lib.scoring.scores import (
    SCHEMA,
    graphs_to_score,
    is_independent,
    score_graphs,
)
from tests.builders import cache_of, cached_graph, tiny_settings

SETTINGS = tiny_settings(folds_total=3, permutations=4, inference_configurations=4)

permuted_scores = stage_script("infer").permuted_scores


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return build_network(SETTINGS)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Cache:
    splits = enumerate(["train", "valid"] * 3)
    graphs = [cached_graph(index, name=f"g{index}", split=split) for index, split in splits]
    few = cached_graph(7, name="few", split="test", configurations=4, labelled=False)
    many = cached_graph(8, name="many", split="test", labelled=False)
    return cache_of(tmp_path_factory.mktemp("cache"), [*graphs, few, many])


@pytest.mark.parametrize("fold", range(3))
@pytest.mark.parametrize("training", [True, False])
def test_what_a_fold_scores(cache, fold, training):
    chosen = tiny_settings(folds_total=3, score_training=training)
    wanted = graphs_to_score(cache, fold, chosen)
    assigned = assign_folds([f"g{index}" for index in range(6)], 3, 0)
    by_split = {s: [n for split, n in wanted if split == s] for s in ("train", "valid", "test")}
    assert by_split["valid"] == sorted(name for name, k in assigned.items() if k == fold)
    train = sorted(name for name, k in assigned.items() if k != fold)
    assert by_split["train"] == (train if training else [])
    assert by_split["test"] == ["few", "many"]


def test_rows_cover_every_original_configuration(cache, network):
    wanted = graphs_to_score(cache, 0, SETTINGS)
    frames = list(score_graphs(network, cache, wanted, SETTINGS, permuted_scores))
    assert len(frames) == len(wanted)
    for (split, name), frame in zip(wanted, frames, strict=True):
        graph = cache.graph(name)
        assert dict(frame.schema) == SCHEMA
        assert set(frame["split"]) == {split}
        assert set(frame["graph"]) == {name}
        rounds = 1 if name == "few" else 4
        pairs = [(p, c) for p in range(rounds) for c in range(len(graph.original))]
        assert frame["permutation", "config"].rows() == pairs
        if split == "test":
            assert frame["runtime"].null_count() == len(frame)
        else:
            expected = np.tile(graph.runtime[graph.original], rounds)
            assert np.array_equal(frame["runtime"], expected)


def test_scores_that_do_not_depend_on_the_batch_are_computed_once(cache, network):
    alone = build_network(tiny_settings(cross_attention=False)).eval()
    assert is_independent(alone, SETTINGS)
    assert not is_independent(network, SETTINGS)
    found = permuted_scores(alone, cache.graph("many"), SETTINGS)
    assert len(found) == 1
    order = np.random.default_rng(0).permutation(10)[None]
    again = score_groupings(alone, graph_tensors(cache.graph("many")), order, 4)
    np.testing.assert_allclose(found, again, rtol=1e-5, atol=1e-6)


def test_permutations_group_differently_and_repeat_themselves(cache, network):
    graph = cache.graph("many")
    first = permuted_scores(network, graph, SETTINGS)
    assert first.shape == (4, len(graph.cells))
    assert len({row.tobytes() for row in first}) == 4
    assert np.array_equal(permuted_scores(network, graph, SETTINGS), first)
    other = permuted_scores(network, graph, tiny_settings(inference_configurations=4, seed=1))
    assert not np.array_equal(other[0], first[0])


@pytest.mark.parametrize(("count", "rounds"), [(3, 1), (4, 1), (5, 4)])
def test_one_permutation_where_one_batch_holds_all(network, count, rounds):
    graph = pruned_graph(cached_graph(configurations=count), SETTINGS.hops)
    found = permuted_scores(network, graph, SETTINGS)
    assert found.shape == (rounds, count)
    if rounds == 1:
        network.eval()
        expected = network(graph_tensors(graph).batch(np.arange(count))).detach().numpy()
        np.testing.assert_allclose(found[0], expected, rtol=1e-4, atol=1e-6)
