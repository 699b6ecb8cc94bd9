"""The predictor that comes with the repository, which `make search` asks where none is trained."""

from __future__ import annotations

import numpy as np
import pytest

from lib.files.errors import UserError
from lib.programs.folds import all_pairs
from lib.programs.inputs import load_programs
from lib.programs.latency.predict import (
    load_predictor,
    predicted_seconds,
    predictor_in,
    predictor_settings,
)
from lib.scoring.weights import BUNDLED
from tests.programs.builders import COLLECTION, cached, write_root

MICROSECONDS = {  # of made-up programs, when the weights were made
    "amd-epyc-25-17.sse2.1t": [3.774, 26.37, 50.14],
    "amd-epyc-25-17.znver4.1t": [2.864, 19.78, 38.51],
}


def test_it_predicts_as_it_did(tmp_path, capsys):
    """Code may change what a network reads, and leave its shapes as they are: `make weights`."""
    _, chosen = predictor_settings(COLLECTION, None, None)
    ensemble, learned = predictor_in(tmp_path, chosen)
    assert "bundled networks predict; make all" in capsys.readouterr().err
    assert len(ensemble.networks) == 3
    write_root(tmp_path / "data", tasks=3, programs=2)
    cache = cached(tmp_path / "data", tmp_path / "cache")
    programs = load_programs(cache, all_pairs(cache, cache.names("train", "valid", "test")))
    devices = {device["name"]: device for device in learned}
    for name, expected in MICROSECONDS.items():
        seconds = predicted_seconds(ensemble, programs, devices[name])
        np.testing.assert_allclose(1e6 * seconds, expected, rtol=0.02)


def test_it_is_small():
    files = (BUNDLED / COLLECTION).rglob("*.safetensors")
    assert sum(path.stat().st_size for path in files) < 6 << 20


def test_a_latency_wants_ones_own(tmp_path):
    """How far a prediction is off is known of one's own alone."""
    _, chosen = predictor_settings(COLLECTION, None, None)
    (tmp_path / chosen.results / "search").mkdir(parents=True)
    with pytest.raises(UserError, match="no predictor there; make all COLLECTION=programs-cpu"):
        load_predictor(tmp_path, chosen)
