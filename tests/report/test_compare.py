"""Two experiments: the verdict first, what else differs, and errors in one line."""

from __future__ import annotations

import re

import pytest

from lib.files.artifacts import read_json, write_json
from lib.files.errors import UserError
from lib.report.compare import comparison, read_two
from lib.report.experiment import read_experiment
from lib.report.tables import graphs, numbers
from tests.report.builders import graph_row, write_outputs

NAMES = [f"graph_{i}" for i in range(8)]


def rows(*gains: float) -> dict[str, dict[str, float]]:
    return {name: graph_row(0.3 + gain) for name, gain in zip(NAMES, gains, strict=True)}


def compared(first, second, every_graph: bool = False) -> str:
    return comparison(*read_two(first, second), every_graph).replace("\N{NO-BREAK SPACE}", " ")


def test_the_verdict_comes_first_and_graphs_where_all_are_wanted(tmp_path):
    one = write_outputs(tmp_path / "a", rows(*[0] * 8))
    gains = (0.1, 0.12, 0.1, 0.09, 0.1, 0.11, 0.1, -0.01)
    other = write_outputs(tmp_path / "b", rows(*gains), learning_rate=0.01)
    text = compared(one, other)
    assert text.startswith(
        "validation: B is better; B − A in Kendall's τ over 8 graphs: +0.089 ± 0.014 "
        "(permutation test p = 0.016)\n"
        "  B is better on 7, A on 1, equal on 0\n"
    )
    lines = [line.split() for line in text.splitlines()]
    assert ["learning_rate", "0.005", "0.01"] in lines
    assert "graph_1" not in text and "\x1b[" not in text
    lines = [line.split() for line in compared(one, other, every_graph=True).splitlines()]
    assert ["graph_1", "0.300", "0.420", "+0.120", "B"] in lines
    assert ["graph_7", "0.300", "0.290", "−0.010", "A"] in lines


def test_speed_ups_are_compared_and_a_property_of_the_data_is_not(tmp_path):
    sides = []
    for name, speedups in (("a", (0.0, -0.02)), ("b", (0.06, 0.0))):
        made = {f"g{i}": graph_row(0.5, speedup=own) for i, own in enumerate(speedups)}
        sides.append(write_outputs(tmp_path / name, made, test=made))
    text = compared(*sides)
    lines = [re.split(r"  +", line.strip()) for line in text.splitlines()]
    assert ["test: speed-up of the pick", "−1.0 %", "3.0 %", "+4.0 % ± 1.9 %"] in lines
    assert "speed-up of the fastest" not in text and "ceiling" not in text
    assert text.count("p = ") == 2, "one of each section: that of the verdict"
    experiment = read_experiment(sides[1])
    shown = [" ".join(row).replace("\N{NO-BREAK SPACE}", " ") for row in numbers(experiment).rows]
    assert any(one.startswith("speed-up of the pick 3.0 ± 3.0 %") for one in shown)
    assert "speed-up of the pick" in graphs(experiment).head


def test_itself(tmp_path):
    one = write_outputs(tmp_path / "a", rows(*[0.1] * 8), test={"t": graph_row(0.5)})
    text = compared(one, one)
    assert "The settings are the same." in text
    assert "B is better on 0, A on 0, equal on 8" in text
    assert text.count("the two differ by no more than chance") == 2
    assert "over 1 graph: +0.000\n" in text and "nan" not in text


def test_other_folds_and_a_single_seed_are_said(tmp_path):
    one = write_outputs(tmp_path / "a", rows(*[0] * 8), seed=0)
    other = write_outputs(tmp_path / "b", rows(*[0] * 8), folds=3, seed=4)
    metrics = read_json(other / "metrics.json")
    metrics["folds"] = {"blended": [2, 0], "validation_tau": {"0": 0.5, "2": 0.4}}
    write_json(other / "metrics.json", metrics)
    text = compared(one, other)
    assert "note: one seed each (0 and 4): the error is over graphs; what another seed" in text
    assert "note: other folds are measured: 0, 1 in A, 0, 2 in B" in text
    assert "note: other folds are blended: 0, 1 in A, 0, 2 in B" in text
    assert "other folds" not in compared(one, one)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("nowhere", "no such folder"),
        ("empty", "no metrics.json there; run 04_ensemble.py first"),
        ("others", "have no scored graph in common"),
        ("tile-xla", "is measured by Kendall's τ, .* by M_tile"),
    ],
)
def test_errors_say_what_to_do(tmp_path, second, message):
    one = write_outputs(tmp_path / "a", rows(*[0] * 8))
    (tmp_path / "empty").mkdir()
    write_outputs(tmp_path / "others", {"x": graph_row(0.1)})
    tiles = {name: {**row, "tile_score": 0.9} for name, row in rows(*[0] * 8).items()}
    write_outputs(tmp_path / "tile-xla", tiles, collection="tile-xla")
    with pytest.raises(UserError, match=message):
        read_two(one, tmp_path / second)
