"""What predicts for a search in another process: every message is answered, each task by itself."""

from __future__ import annotations

import io

import numpy as np

from lib.programs.messages import receive, send
from lib.programs.search.answers import answer
from tests.programs.search.half import programs


def test_what_was_measured_of_a_task_corrects_that_task_alone():
    drawn = programs(np.random.default_rng(0))
    taken = np.full(len(drawn["joined"]), np.exp(-8.0))
    asked, said = io.BytesIO(), io.BytesIO()
    send(asked, {"kind": "measured", "task": "a"}, {**drawn, "seconds": taken})
    for task in "ab":
        send(asked, {"kind": "predict", "task": task}, drawn)
    asked.seek(0)
    answer(lambda some: np.full(len(some), -9.0), asked, said)
    said.seek(0)
    ready, _, corrected, untouched = (receive(said) for _ in range(4))
    assert ready[0]["kind"] == "ready" and receive(said) is None
    readable = drawn["joined"]
    np.testing.assert_allclose(corrected[1]["logs"][readable], -8, atol=0.02)
    assert (untouched[1]["logs"][readable] == -9).all()
    assert np.isnan(untouched[1]["logs"]).tolist() == (~readable).tolist()
