"""Two experiments side by side: what differs, who wins, and errors in one line."""

from __future__ import annotations

import re

import pytest

from lib.files.errors import UserError
from lib.report.compare import comparison, read_two
from lib.report.experiment import read_experiment
from lib.report.status import _scores
from lib.report.tables import graphs, numbers
from tests.report.builders import graph_row, write_outputs

NAMES = [f"graph_{i}" for i in range(8)]


def rows(*gains: float) -> dict[str, dict[str, float]]:
    return {name: graph_row(0.3 + gain) for name, gain in zip(NAMES, gains, strict=True)}


def compared(first, second) -> str:
    return comparison(*read_two(first, second)).replace("\N{NO-BREAK SPACE}", " ")


def test_a_clear_win(tmp_path):
    one = write_outputs(tmp_path / "a", rows(*[0] * 8))
    gains = (0.1, 0.12, 0.1, 0.09, 0.1, 0.11, 0.1, -0.01)
    other = write_outputs(tmp_path / "b", rows(*gains), learning_rate=0.01)
    text = compared(one, other)
    lines = [line.split() for line in text.splitlines()]
    assert ["learning_rate", "0.005", "0.01"] in lines
    assert ["graph_1", "0.300", "0.420", "+0.120", "B"] in lines
    assert ["graph_7", "0.300", "0.290", "−0.010", "A"] in lines
    assert "validation: 8 graphs: B better on 7, A on 1, equal on 0" in text
    assert "mean difference B − A: +0.089 ± 0.014" in text
    assert "permutation test: p = 0.016" in text
    assert "so B is better" in text
    assert "\x1b[" not in text


def test_speed_ups_are_compared_and_shown_by_status_and_report(tmp_path):
    sides = []
    for name, speedups in (("a", (0.0, -0.02)), ("b", (0.06, 0.0))):
        made = {f"g{i}": graph_row(0.5, speedup=own) for i, own in enumerate(speedups)}
        sides.append(write_outputs(tmp_path / name, made, test=made))
    lines = [re.split(r"  +", line.strip()) for line in compared(*sides).splitlines()]
    row = ["test: speed-up of the pick", "−1.0 %", "3.0 %", "+4.0 % ± 1.9 %"]
    assert row in [line[:4] for line in lines]
    assert ["test: picks over 1 % faster", "0.0 %", "50.0 %"] in [line[:3] for line in lines]
    experiment = read_experiment(sides[1])
    told = [" ".join(row).replace("\N{NO-BREAK SPACE}", " ") for row in numbers(experiment).rows]
    assert any(one.startswith("speed-up of the pick 3.0 ± 3.0 %") for one in told)
    assert any(one.startswith("picks over 1 % faster 50.0 ± 50.0 %") for one in told)
    head = graphs(experiment).head
    assert "speed-up of the pick" in head
    assert "picks over 1 % faster" not in head
    shown = _scores(experiment).replace("\N{NO-BREAK SPACE}", " ")
    assert "picks over 1 % slower" in shown
    assert "3.0 ± 3.0 %" in shown
    assert "speed-up" not in _scores(read_experiment(write_outputs(tmp_path / "c", rows(*[0] * 8))))


def test_itself(tmp_path):
    one = write_outputs(tmp_path / "a", rows(*[0.1] * 8), test={"t": graph_row(0.5)})
    text = compared(one, one)
    assert "The settings are the same." in text
    assert "B better on 0, A on 0, equal on 8" in text
    assert text.count("the two cannot be told apart") == 2
    assert "test: 1 graphs" in text
    assert "nan" not in text


def test_many_graphs_show_the_largest_differences(tmp_path):
    names = [f"graph_{i}" for i in range(60)]
    one = write_outputs(tmp_path / "a", {name: graph_row(0.3) for name in names})
    other = write_outputs(
        tmp_path / "b", {name: graph_row(0.3 + i / 1000) for i, name in enumerate(names)}
    )
    sides = read_two(one, other)
    assert "... 20 more graphs differ less" in comparison(*sides)
    assert "graph_59" in comparison(*sides)
    assert "graph_1 " not in comparison(*sides)
    assert "graph_1 " in comparison(*sides, most=100)


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("nowhere", "no such folder"),
        ("empty", "no metrics.json there; run 04_ensemble.py first"),
        ("others", "have no scored graph in common"),
        ("tile-xla", "is judged by Kendall's τ, .* by M_tile"),
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


def test_make_compare(finished, tmp_path):
    said = finished.make("compare", A=finished.folder, B=finished.folder, ARGS="")
    assert "the two cannot be told apart" in said
    with pytest.raises(AssertionError, match="usage: make compare"):
        finished.make("compare", A=finished.folder, ARGS="")
    with pytest.raises(AssertionError, match=r"error: .*: no such folder"):
        finished.make("compare", A=finished.folder, B=tmp_path / "nowhere", ARGS="--all")
    with pytest.raises(AssertionError, match="error: unrecognized arguments: --channels; usage"):
        finished.make("compare", A=finished.folder, B=finished.folder, ARGS="--channels")
