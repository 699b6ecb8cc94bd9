"""Which graphs a fold trains on and which it is validated on."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from lib.cache.graph import CachedGraph
from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.models.common.rows import Standardize
from lib.ranking.folds import assign_folds
from lib.training.fold import load_fold
from lib.training.loss import pairwise_hinge
from lib.training.split import left_out
from tests.builders import cache_of, cached_graph, tiny_settings


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Cache:
    graphs = [
        cached_graph(i, name=f"g{i}", split="valid" if i % 3 == 0 else "train") for i in range(9)
    ]
    flat = cached_graph(10, name="flat")
    graphs.append(CachedGraph(**{**vars(flat), "runtime": np.full(10, 7)}))
    graphs.append(cached_graph(11, name="single", configurations=1))
    graphs.append(cached_graph(12, name="unlabelled", labelled=False))
    graphs.append(cached_graph(13, name="test", split="test"))
    return cache_of(tmp_path_factory.mktemp("cache"), graphs)


@pytest.mark.parametrize("fold", range(4))
def test_a_fold_and_the_rest(cache, fold):
    data = load_fold(cache, fold, tiny_settings(folds_total=4))
    useful = {f"g{i}" for i in range(9)}
    assigned = assign_folds(useful, 4, 0)
    valid = sorted(name for name in useful if assigned[name] == fold)
    assert [graph.name for graph in data.valid] == valid
    assert [graph.name for graph in data.train] == sorted(useful - set(valid))
    assert np.array_equal(data.valid[0].runtime, cache.graph(valid[0]).runtime)


def test_standardization_sees_the_training_graphs_only(cache):
    data = load_fold(cache, 1, tiny_settings(folds_total=4))
    standardize, expected = Standardize(), Standardize()
    data.standardize(SimpleNamespace(inputs=SimpleNamespace(standardize=standardize)))
    expected.fit(torch.cat([graph.prepared.features for graph in data.train]))
    assert torch.equal(standardize.mean, expected.mean)
    assert torch.equal(standardize.factor, expected.factor)


def test_the_loss_is_the_hinge(cache):
    chosen = tiny_settings(folds_total=4)
    data, generator = load_fold(cache, 1, chosen), np.random.default_rng(0)
    batch = data.draw(data.groups(generator)[0], generator, 0.0)
    scores = torch.linspace(-1, 1, batch.size)
    assert batch.loss(scores) == pairwise_hinge(scores, batch.runtimes[0])


@pytest.mark.parametrize("fold", [-1, 4])
def test_no_such_fold(cache, fold):
    with pytest.raises(UserError, match=f"--fold {fold}"):
        load_fold(cache, fold, tiny_settings(folds_total=4))


def test_a_fold_without_labelled_graphs(tmp_path):
    graphs = cached_graph(1, name="a"), cached_graph(2, name="b", labelled=False)
    cache = cache_of(tmp_path, graphs)
    wanted = r"2 graphs that can be ranked, .*left out of all folds: b \(no runtimes\)$"
    with pytest.raises(UserError, match=wanted):
        load_fold(cache, 0, tiny_settings(folds_total=2))


def test_what_no_fold_has_is_named(cache):
    assert left_out(cache) == (
        "left out of all folds: flat (all its configurations ran equally fast), "
        "single (all its configurations are the same), unlabelled (no runtimes)"
    )
