"""The file that Kaggle scores."""

from __future__ import annotations

import polars as pl
import pytest

from lib.files.errors import DataError
from lib.scoring.submission import submission_lines, write_submission


def placed(places: dict[str, list[int]]) -> pl.DataFrame:
    rows = [(graph, c, place) for graph, column in places.items() for c, place in enumerate(column)]
    return pl.DataFrame(rows, schema=["graph", "config", "place"], orient="row")


def test_submission_rows_are_in_order():
    scores = placed({"b.v1": [2, 0, 3, 1], "a": [1, 0]})
    rows = submission_lines(scores, "layout:xla:default", {"b.v1": 4, "a": 2})
    assert rows == [("layout:xla:default:a", "1;0"), ("layout:xla:default:b.v1", "1;3;0;2")]


@pytest.mark.parametrize("counts", [{"a": 3}, {"a": 1}, {"a": 2, "b": 1}])
def test_a_submission_that_lacks_configurations_is_refused(counts):
    with pytest.raises(DataError, match="scores"):
        submission_lines(placed({"a": [0, 1]}), "layout:xla:default", counts)


def test_the_file_that_kaggle_scores(tmp_path):
    write_submission(tmp_path / "a.csv", [("layout:xla:default:a", "1;0"), ("b", "0")])
    text = (tmp_path / "a.csv").read_text()
    assert text == "ID,TopConfigs\nlayout:xla:default:a,1;0\nb,0\n"
    write_submission(tmp_path / "a.csv", [])
    assert (tmp_path / "a.csv").read_text() == "ID,TopConfigs\n"
