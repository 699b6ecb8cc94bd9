"""What an epoch is validated on, and what is said of the weights in the end."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lib.models.tgraph.inputs import INPUT
from lib.ranking.metrics import kendall_tau
from lib.training.fold import validation_rows
from lib.training.split import LabelledGraph
from tests.training.test_loop import data, finished  # noqa: F401 (a fixture)

FEW = {"validation_configurations": 7}


@given(count=st.integers(1, 3000), most=st.integers(2, 1500), name=st.text(max_size=9))
def test_the_same_configurations_every_time(count, most, name):
    graph = LabelledGraph(name, None, np.arange(count))
    rows = validation_rows(graph, most)
    assert len(rows) == min(count, most)
    assert (np.diff(rows) > 0).all()
    assert 0 <= rows[0] <= rows[-1] < count
    assert np.array_equal(rows, validation_rows(graph, most))
    assert np.array_equal(validation_rows(graph, None), np.arange(count))


def test_epochs_are_validated_on_some_and_the_weights_in_the_end_on_all(data, tmp_path):  # noqa: F811
    few = finished(data, tmp_path / "few", **FEW)
    network, size = few.network.eval(), few.data.settings.inference_configurations

    def taus(most: int | None) -> dict[str, float]:
        found = {}
        for one in data.valid:
            rows = validation_rows(one, most)
            scores = INPUT.scores(network, one.prepared, size, rows)
            found[one.name] = kendall_tau(scores, one.runtime[rows])
        return found

    some, every = taus(7), taus(None)
    assert some != every
    assert few.checkpoint.history[-1]["validation_tau"] == pytest.approx(np.mean([*some.values()]))
    assert few.checkpoint.validations["last"]["graphs"] == pytest.approx(every)
    assert few.checkpoint.validation(1)["tau"] == pytest.approx(np.mean([*every.values()]))
    assert few.checkpoint.validations["last"]["epoch"] == few.data.settings.epochs


def test_the_best_weights_are_judged_by_all_if_they_are_used(data, tmp_path):  # noqa: F811
    made = finished(data, tmp_path / "state", epochs=6, weights="best", learning_rate=0.05, **FEW)
    after = {name: tensor.clone() for name, tensor in made.network.state_dict().items()}
    known = made.checkpoint.validation(1)
    made.network.load_state_dict(made.checkpoint.best_weights)
    whole = made.data.validate(made.network.eval(), whole=True)
    assert known["graphs"] == {name: found["tau"] for name, found in whole.items()}
    history = [row["validation_tau"] for row in made.checkpoint.history]
    assert known["epoch"] == 1 + history.index(max(history))
    last = finished(data, tmp_path / "other", epochs=6, learning_rate=0.05, **FEW)
    for name, tensor in last.network.state_dict().items():
        assert torch.equal(tensor, after[name]), name
