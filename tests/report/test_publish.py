"""What stage 4 sends to W&B."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from lib.files.artifacts import read_json, write_json
from lib.report.experiment import read_experiment
from lib.report.publish import publish
from tests.report.builders import graph_row, write_outputs


def test_a_group_has_its_mean_and_deviation_over_folds(tmp_path):
    folder = write_outputs(tmp_path / "a", {"g": graph_row(0.3)})
    metrics = read_json(folder / "metrics.json")
    metrics["folds"] = {"blended": [1], "validation_tau": {"0": 0.5, "1": 0.7}}
    write_json(folder / "metrics.json", metrics)
    tracker = Mock()
    publish(read_experiment(folder), SimpleNamespace(tracker=tracker), [folder / "submission.csv"])
    sent = {k: v for call in tracker.summarize.call_args_list for k, v in call.args[0].items()}
    assert sent["validation_tau/mean"] == pytest.approx(0.6)
    assert sent["validation_tau/deviation"] == pytest.approx(0.2 / 2**0.5)
    assert (sent["validation_tau/fold_1"], sent["validation_tau/folds"]) == (0.7, 2)
