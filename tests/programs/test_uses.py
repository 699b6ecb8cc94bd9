"""Searches and timelines on the page, from what `make search` and `make latency` leave."""

from __future__ import annotations

import json

import pytest

from lib.files.errors import DataError
from lib.programs.uses import searches, timeline, timelines

SEARCH = {
    "network": "net",
    "device": "avx2",
    "cost_model": "predictor",
    "budget": 3,
    "whole": {"searched": 2e-3, "PyTorch": 8e-3},
    "tasks": [
        {"task": "a", "calls": 2, "operators": "conv", "unscheduled": 4.0, "seconds": [8, None, 1]},
        {"task": "b", "calls": 1, "operators": "add", "unscheduled": 1.0, "seconds": [0.5]},
        {"task": "c", "calls": 9, "operators": "sub", "unscheduled": 0.1, "seconds": []},
    ],
}
ESTIMATE = {
    **{"network": "<net>", "device": "cpu.avx2.1t", "seconds": 3e-3, "low": 2e-3, "high": 4e-3},
    "error_networks": 6,
    "tasks": [
        {"task": f"t{k}", "operators": f"op{k}", "calls": 1, "seconds": 1e-3 * (k + 1)}
        for k in range(9)
    ],
    "timeline": [
        {"task": f"t{k}", "engine": f"engine {k % 2}", "start": k * 1e-3, "end": (k + 1) * 1e-3}
        for k in range(9)
    ],
}


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    return folder


def test_a_search_is_all_its_programs_together(tmp_path):
    found = searches(write(tmp_path, "search/net.avx2/search.json", SEARCH))
    assert found["labels"] == ["net.avx2"]
    (row,) = found["table"].rows
    # At the end 2 x 1 + 0.5 + 9 x 0.1 seconds.
    assert row[1:] == ["predictor", "3", "4", "3.4e+03", "searched 2, PyTorch 8"]
    assert "net.avx2: 3.4e+03 ms at the end" in found["figure"]


def test_a_search_that_has_not_come_to_all_tasks_is_not_shown(tmp_path):
    tasks = [*SEARCH["tasks"], {**SEARCH["tasks"][2], "unscheduled": None}]
    assert searches(write(tmp_path, "search/net/search.json", {**SEARCH, "tasks": tasks})) is None


def test_what_compares_devices_has_no_timeline(tmp_path):
    assert timelines(write(tmp_path, "latency/net.b1.all.json", [ESTIMATE, ESTIMATE])) == []


def test_without_anything_measured_there_is_nothing_to_show(tmp_path):
    assert searches(tmp_path) is None and timelines(tmp_path) == []
    empty = {**SEARCH, "tasks": []}
    assert searches(write(tmp_path, "search/net.avx2/search.json", empty)) is None


def test_a_timeline_has_a_bar_a_call_and_colours_for_what_costs_most(tmp_path):
    (found,) = timelines(write(tmp_path, "latency/net.b1.avx2.json", ESTIMATE))
    assert found["name"] == "<net> on cpu.avx2.1t" and "9 calls" in found["says"]
    assert "3 ms, two networks in three 2 to 4 ms" in found["says"]
    unknown = {**ESTIMATE, "error_networks": 0}
    (found,) = timelines(write(tmp_path, "latency/net.b1.avx2.json", unknown))
    assert found["says"] == "3 ms; 9 calls"
    assert found["labels"] == [f"op{k}" for k in range(8, 1, -1)]
    figure, _ = timeline(ESTIMATE)
    text = str(figure.render())
    assert text.count("<rect") == 9 and text.count('class="track"') == 2
    assert "engine 1" in text and "op8: 1 ms" in text and "<net>" not in text


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("search/a/search.json", {**SEARCH, "tasks": 3}, "tasks: found 3, expected a list"),
        ("latency/a.json", {**ESTIMATE, "low": "x"}, "low: found 'x', expected a finite number"),
        ("latency/a.json", {**ESTIMATE, "timeline": [{}]}, r"timeline\[0\].task: found nothing"),
    ],
)
def test_what_is_none_is_told(tmp_path, name, content, said):
    write(tmp_path, name, content)
    with pytest.raises(DataError, match=said):
        searches(tmp_path), timelines(tmp_path)
