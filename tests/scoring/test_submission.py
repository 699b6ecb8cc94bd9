"""The file that Kaggle scores."""

from __future__ import annotations

import numpy as np
import pytest

from lib.files.errors import DataError
from lib.scoring.submission import submission_lines, write_submission
from tests.scoring.test_ensemble import frame


def test_submission_rows_are_ordered_by_score_then_layouts_set_then_position():
    scores = frame({"b.v1": [0.5, -1, 0.5, 0, 0.5 + 1e-15], "a": [3.0, 2.0]})
    layouts_set = {"b.v1": np.array([2, 0, 2, 3, 1]), "a": np.zeros(2)}
    rows = submission_lines(scores, "layout:xla:default", layouts_set)
    assert rows == [("layout:xla:default:a", "1;0"), ("layout:xla:default:b.v1", "1;3;4;0;2")]


@pytest.mark.parametrize("counts", [{"a": 3}, {"a": 1}, {"a": 2, "b": 1}])
def test_a_submission_that_lacks_configurations_is_refused(counts):
    layouts_set = {name: np.zeros(count) for name, count in counts.items()}
    with pytest.raises(DataError, match="scores"):
        submission_lines(frame({"a": [1.0, 2.0]}), "layout:xla:default", layouts_set)


def test_the_file_that_kaggle_scores(tmp_path):
    write_submission(tmp_path / "a.csv", [("layout:xla:default:a", "1;0"), ("b", "0")])
    text = (tmp_path / "a.csv").read_text()
    assert text == "ID,TopConfigs\nlayout:xla:default:a,1;0\nb,0\n"
    write_submission(tmp_path / "a.csv", [])
    assert (tmp_path / "a.csv").read_text() == "ID,TopConfigs\n"
