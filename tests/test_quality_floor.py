"""What the default model must rank, at the least: the pipeline on the bundled measurements.

A network that learns nothing has a tau of 0, the baseline without learning 0.61 on the same
programs. Two folds of five, families whole, so that no program was seen in any size.
"""

from __future__ import annotations

import json

import pytest

from .stages import make

FOLDS, PROGRAMS = 2, 22
MEASURED = 0.0
FLOOR = 0.0


@pytest.fixture(scope="module")
def metrics(tmp_path_factory) -> dict:
    outputs = tmp_path_factory.mktemp("floor")
    make("all", OUTPUTS=outputs, DATA="data/xla-cpu", FOLDS=FOLDS, JOBS=2)
    return json.loads((outputs / "layout-xla-default" / "metrics.json").read_text())


def test_unseen_programs_are_ranked(metrics):
    assert len(metrics["validation"]["graphs"]) >= PROGRAMS
    assert metrics["validation"]["mean"]["tau"] > FLOOR


def test_the_default_model_beats_arithmetic(metrics):
    mean = metrics["validation"]["mean"]
    assert mean["tau"] > mean["baseline_tau"]
