"""The predictor that comes with the repository, for `make search` and `make latency`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from lib.programs.devices import predicted_seconds
from lib.programs.folds import all_pairs
from lib.programs.inputs import load_programs
from lib.programs.latency.error import bundled_error, of_blend
from lib.programs.latency.predictor import Predictor, predictor_in, predictor_settings
from tests.programs.builders import COLLECTION, cached, write_root

MICROSECONDS = {  # of made-up programs, when the weights were made
    "amd-epyc-25-17.sse2.1t": [3.073, 22.67, 45.23],
    "amd-epyc-25-17.znver4.1t": [1.821, 14.39, 30.83],
}


def test_it_predicts_as_it_did(tmp_path, capsys):
    """Code may change what a network reads, and leave its shapes as they are: `make weights`."""
    _, chosen = predictor_settings(COLLECTION, None, None)
    ensemble, learned, _ = predictor_in(tmp_path, chosen)
    assert "bundled networks predict; make all" in capsys.readouterr().err
    assert len(ensemble.networks) == 4
    write_root(tmp_path / "data", tasks=3, programs=2)
    cache = cached(tmp_path / "data", tmp_path / "cache")
    programs = load_programs(cache, all_pairs(cache, cache.names("train", "valid", "test")))
    devices = {device["name"]: device for device in learned}
    for name, expected in MICROSECONDS.items():
        seconds = predicted_seconds(ensemble, programs, devices[name])
        np.testing.assert_allclose(1e6 * seconds, expected, rtol=0.02)


def test_its_latencies_are_as_far_off_as_its_own_were(tmp_path):
    """Errors of the nearest number of schedules, of networks that were held out."""
    predictor = Predictor.load(tmp_path, tvm=Path(sys.executable))
    device = predictor.known[predictor.device("avx2")]["name"]
    error, single = predictor._error(device, 20), bundled_error(predictor.weights, device, 16)
    assert error == of_blend(single, 4, 20, True) and error.networks > 100
    assert 0.8 < error.low < error.middle < error.high < 2
    assert len(predictor.learned) > 1000
