"""README's table of results, from results that are made up."""

from __future__ import annotations

import math
import sys

from lib.files.artifacts import write_json
from tests.bench import results as of_readme


def test_the_table_of_the_readme(tmp_path, monkeypatch, capsys):
    """A row has what the metrics of all networks have, and what is gained over the compiler."""
    mean = {"tau": 0.75219, "baseline_tau": 0.65, "ceiling": 0.884}
    gained = {"log_speedup": math.log(1.006), "best_log_speedup": math.log(1.018)}
    tests = {"": mean | gained, "@tgraph": {"tau": 0.553}, "+all": {"tau": 0.765}}
    graphs = {"bert.a": 0.8, "bert.b": 0.9, "vit.c": 0.5}
    graphs = {name: {"tau": tau} for name, tau in graphs.items()}
    for end, test in tests.items():
        learned = {"graphs": {"bert.d": {}}}
        sections = {"validation": learned, "test": {"mean": test, "graphs": graphs}}
        (tmp_path / f"layout-xla-default{end}").mkdir()
        write_json(tmp_path / f"layout-xla-default{end}" / "metrics.json", sections)
    monkeypatch.setattr(sys, "argv", ["results", str(tmp_path)])
    of_readme.main()
    *table, _, said = capsys.readouterr().out.splitlines()
    assert said.endswith(": 0.850 of 2 and 0.500 of 1 (`layout-xla-default`).")
    head, _, row = ([cell.strip() for cell in line.split("|")[1:-1]] for line in table)
    assert head[6:] == [
        *("baseline, test", "tgraph, test", "tgraph-plus, test", "tgraph-plus, `ALSO=all`, test"),
        *("ceiling, test", "speed-up", "possible"),
    ]
    assert row == [
        *("`layout-xla-default`", "", "", "", "", ""),
        *("0.650", "0.553", "0.752", "0.765", "0.884", "0.6%", "1.8%"),
    ]
