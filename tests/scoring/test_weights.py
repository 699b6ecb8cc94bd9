"""Weights that come with the repository, and where a ranking takes its networks from."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from lib.files.errors import UserError
from lib.scoring import weights
from lib.scoring.rank import rank_programs
from lib.settings.resolved import BUNDLED
from tests.builders import COLLECTION
from tests.scoring.test_rank import MODEL, SETTINGS, folds, program  # noqa: F401

KEPT = weights.BUNDLED / "layout-xla-default"
TESTS = BUNDLED / "npz/layout/xla/default/test"


def test_the_folds_that_are_blended_are_kept(folds, program, tmp_path):  # noqa: F811
    own, _ = folds
    (tmp_path / "kept" / own.name / "fold_7").mkdir(parents=True)
    assert weights.keep(own, SETTINGS, tmp_path / "kept") == [2, 0]
    kept = tmp_path / "kept" / own.name
    assert sorted(path.name for path in kept.iterdir()) == ["fold_0", "fold_2"]
    (one,), (other,) = (
        rank_programs(program[0], None, at, COLLECTION, MODEL) for at in (own, kept)
    )
    assert np.array_equal(one.scores, other.scores)


def test_ones_own_come_first_and_those_of_other_hardware_never(folds, tmp_path, monkeypatch):  # noqa: F811
    own, _ = folds
    monkeypatch.setattr(weights, "BUNDLED", tmp_path / "kept")
    weights.keep(own, SETTINGS, tmp_path / "kept")
    bare = tmp_path / "outputs" / own.name
    assert weights.weights_in(own, SETTINGS) == own
    assert weights.weights_in(bare, SETTINGS) == tmp_path / "kept" / own.name
    others = dataclasses.replace(SETTINGS, hardware="cpu")
    with pytest.raises(
        UserError, match=f"make all COLLECTION={SETTINGS.collection} MODEL=tgraph trains"
    ):
        weights.weights_in(bare, others)
    with pytest.raises(UserError, match=f"other: nothing .* weights are of {own.name} alone"):
        weights.weights_in(bare.with_name("other"), SETTINGS)


SCORES = {  # of the first configurations, when the weights were made
    "wavenet.w64_d3_4x4096.forward": [-1.156, -0.425, -0.653, -0.932, -1.156, -0.807],
    "graph_net.w128_d3_16x64x32.forward": [-0.914, 0.038, -0.914, -0.218, 0.79, 1.467],
    "mobilenet.v2_w16_d3_b2_r64.forward": [-1.501, 0.115, -0.193, -1.501, -0.893, -1.437],
}


@pytest.mark.parametrize(("name", "scores"), SCORES.items())
def test_bundled_weights_score_as_they_did(name, scores):
    """Code may change what a network reads, and leave its shapes as they are: `make weights`."""
    (ranking,) = rank_programs(TESTS / f"{name}.npz", None, KEPT, "layout-xla-default", {})
    assert ranking.scores[: len(scores)] == pytest.approx(scores, abs=0.01)
