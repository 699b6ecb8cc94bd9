"""Pretraining of a new network: the costs of copies that were measured by themselves."""

from __future__ import annotations

from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch
from torch import nn

from lib.cache.reader import Cache
from lib.collect.xla.copies import Copy, write_copies
from lib.compiler.cpu.features import COPY_FEATURES
from lib.compiler.cpu.moves import MovedTensor, memory_features
from lib.compiler.cpu.resolved import WIDTHS
from lib.files import progress
from lib.models.common.build import network_for
from lib.models.tgraph_plus.network import TGraphPlus
from lib.models.tgraph_plus.settings import TGraphPlusSettings
from lib.models.tgraph_plus.training import ROWS, measured_copies
from lib.runs.identity import Run, outputs_of
from lib.training.fold import load_fold, new_network
from tests.training.test_split import OWN, names_of, write_cache

COPIES = [
    (Copy((8, 16, 4), (2, 1, 0), (0, 1, 2)), 2.0),
    (Copy((64, 64), (0, 1), (1, 0)), 4.0),
]


def test_features_are_those_of_memory_and_costs_are_logarithms_a_byte(tmp_path):
    write_copies(tmp_path / "copies.npz", COPIES)
    found = measured_copies(tmp_path / "copies.npz")
    moved = MovedTensor((8, 16, 4), (2, 1, 0), 2048.0)
    expected = memory_features(moved, (2, 1, 0), (0, 1, 2))
    assert found.features.shape == (2, sum(WIDTHS))
    assert torch.equal(found.features[0, found.known], torch.tensor(expected))
    assert not found.features[:, ~found.known].any()
    known = found.known[: len(COPY_FEATURES)].numpy()
    assert {name.split(".")[0] for name in np.array(COPY_FEATURES)[~known]} == {
        *("chain", "reason", "writer", "reader")
    }
    assert found.known.sum() == known.sum()
    assert abs(found.costs.mean()) < 1e-6
    assert torch.isclose(
        found.costs[1] - found.costs[0], torch.tensor(log((4 / 16384) / (2 / 2048)))
    )


SETTINGS = TGraphPlusSettings(
    OWN, hardware="cpu", folds_total=3, keep_together="family", pretraining=300
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory) -> Cache:
    return write_cache(tmp_path_factory.mktemp("outputs"), OWN, names_of(4, 2, 0))


def new(cache: Cache, settings: TGraphPlusSettings) -> nn.Module:
    """A new network, of the first fold."""
    return new_network(load_fold(cache, 0, settings), 0, 0)


def test_pretraining_is_on_what_copies_cost(cache, monkeypatch, capsys):
    monkeypatch.setattr(progress, "LOGGED", 0.01)
    fold = load_fold(cache, 0, SETTINGS)
    measured = fold.measured
    assert len(measured.costs) >= 5000 and measured.features.isfinite().all()
    assert measured.costs.std() > 0.3, "copies cost differently"
    torch.manual_seed(0)
    network = network_for(SETTINGS)
    copies = torch.zeros(len(measured.features), dtype=torch.int64)
    network.effects.fit(measured.features, copies)
    errors = []
    for _ in range(2):
        network.eval()
        with torch.no_grad():
            costs = network.alone(network.effects(measured.features, copies))
        errors.append([(each - measured.costs).std().item() for each in costs])
        fold.pretrain(network)
    assert " pretraining: " in capsys.readouterr().out
    assert len(errors[0]) == SETTINGS.members
    assert all(after < 0.6 * before for before, after in zip(*errors, strict=True)), errors


def test_pretraining_is_as_much_work_for_any_collection(cache, tmp_path, monkeypatch):
    rows, alone = [], TGraphPlus.alone
    monkeypatch.setattr(TGraphPlus, "alone", lambda self, x: rows.append(len(x)) or alone(self, x))
    for each in (cache, write_cache(tmp_path, OWN, names_of(6, 3, 0))):
        new(each, replace(SETTINGS, pretraining=10))
    assert rows == 20 * [ROWS]


def test_the_same_seed_gives_the_same_weights(cache):
    one, other = (new(cache, replace(SETTINGS, pretraining=30)).state_dict() for _ in range(2))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_what_was_measured_counts_where_it_is_used(cache):
    outputs = outputs_of(cache.folder, SETTINGS)
    assert set(Run(outputs, SETTINGS).data_of_training) == {"data", "measured"}
    own = replace(SETTINGS, pretraining=0)
    assert load_fold(cache, 0, own).measured is None
    assert own.pretrained_on is None
    assert set(Run(outputs, own).data_of_training) == {"data"}
