"""Copies that were measured by themselves, as features and costs."""

from __future__ import annotations

from math import log

import numpy as np
import torch

from lib.collect.xla.copies import Copy, write_copies
from lib.compiler.cpu.features import COPY_FEATURES
from lib.compiler.cpu.moves import MovedTensor, memory_features
from lib.compiler.cpu.resolved import WIDTHS
from lib.models.tgraph_plus.measured import measured_copies
from lib.models.tgraph_plus.settings import COPIES as COPIES_FILE

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


def test_the_bundled_ones_cover_what_networks_have():
    found = measured_copies(COPIES_FILE)
    assert len(found.costs) >= 5000
    assert found.features.isfinite().all() and found.costs.isfinite().all()
    assert found.costs.std() > 0.3, "copies cost differently"
