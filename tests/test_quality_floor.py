"""What the default model must rank at the least: stages 1 and 2 on bundled measurements, one pass.

One collection, a fold of five, families whole: no program is ranked by a network that saw it in any
size. Measured: 0.647; the baseline, which learns nothing, has 0.568 on the same programs.
"""

from __future__ import annotations

import json

import numpy as np

from lib.cache.reader import Cache
from lib.ranking.baseline import moved_bytes
from lib.ranking.metrics import kendall_tau
from tests.stages import make

PROGRAMS, FLOOR = 32, 0.64
SHORT = {"FOLDS": 1, "JOBS": 1, "EPOCHS": 1, "ARGS": "--pretraining 300"}


def test_unseen_programs_are_ranked(tmp_path):
    make("train", OUTPUTS=tmp_path, DATA="data/xla-cpu", **SHORT)
    path = tmp_path / "layout-xla-default" / "fold_0" / "metrics.json"
    validation = json.loads(path.read_text())["validation"]
    assert len(validation["graphs"]) == PROGRAMS
    cache = Cache(tmp_path / "layout-xla-default" / "cache")
    graphs = [cache.graph(name) for name in validation["graphs"]]
    baseline = np.mean([kendall_tau(moved_bytes(graph), graph.runtime) for graph in graphs])
    assert validation["tau"] > FLOOR > baseline
