"""Tables and figures of the bench of ranking, from results that are made up."""

from __future__ import annotations

import math
import sys
from dataclasses import replace
from itertools import product

import numpy as np
import polars as pl
import pytest

from lib.files.artifacts import write_json
from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS
from tests.bench import real_search
from tests.bench import results as of_readme
from tests.bench.quality import SCHEMA
from tests.bench.quality_tables import draw_curve
from tests.builders import cached_graph

WHOLE, HALF = "tgraph-plus", "tgraph-plus, 50.0% of the programs"


def results(variants, collections=LAYOUT_COLLECTIONS) -> pl.DataFrame:
    lines = [
        (variant, collection, seed, f"{graph} of {collection}", 0.5 + 0.1 * seed, None)
        for variant, collection, seed, graph in product(variants, collections, range(2), range(5))
    ]
    return pl.DataFrame(lines, SCHEMA, orient="row")


def test_a_panel_for_each_variant_that_has_a_curve(tmp_path):
    known = LAYOUT_COLLECTIONS[:3]
    draw_curve(results([WHOLE, HALF, "tgraph", "moved bytes, no learning"], known), tmp_path / "a")
    drawn = (tmp_path / "a").read_text()
    titles = [f"<!-- {name} -->" in drawn for name in (WHOLE, "tgraph", *LAYOUT_COLLECTIONS)]
    assert titles == [True, False, True, True, True, False]
    draw_curve(results([HALF, WHOLE], known), tmp_path / "b")
    assert (tmp_path / "b").read_text().count("training programs") == 1


def test_no_curve_without_two_shares(tmp_path):
    with pytest.raises(ValueError, match="two shares"):
        draw_curve(results([WHOLE, "tgraph"]), tmp_path / "curve.svg")
    assert not list(tmp_path.iterdir())


def test_how_many_are_measured_until_a_fast_one_is_met():
    graph = cached_graph(configurations=40, triples=40)
    graph = replace(graph, runtime=np.random.default_rng(0).permutation(40) + 1500)
    knows = {sign: lambda one, _, others, __, s=sign: s * one.runtime[others] for sign in (1, -1)}
    assert real_search.until(graph, knows[1], 0) == [1, 1]
    assert real_search.until(graph, knows[-1], 0) == [39, 40]  # 1,501 is within 0.1 %
    assert real_search.expected(graph) == [41 / 3, 41 / 2]
    found = real_search.until(graph, real_search.genetic, 0)
    assert 1 <= found[0] <= found[1] <= 40


def test_the_table_of_the_readme(tmp_path, monkeypatch, capsys):
    """A row has what the metrics of both networks have, and what is gained over the compiler."""
    mean = {"tau": 0.75219, "baseline_tau": 0.65, "ceiling": 0.884}
    gained = {"log_speedup": math.log(1.006), "best_log_speedup": math.log(1.018)}
    for name, test in (("xla-default", mean | gained), ("xla-default@tgraph", {"tau": 0.553})):
        sections = {"validation": {}, "test": {"mean": test}}
        (tmp_path / f"layout-{name}").mkdir()
        write_json(tmp_path / f"layout-{name}" / "metrics.json", sections)
    monkeypatch.setattr(sys, "argv", ["results", str(tmp_path)])
    of_readme.main()
    head, _, row = (
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in capsys.readouterr().out.splitlines()
    )
    assert head[5:] == [
        *("baseline, test", "tgraph, test", "tgraph-plus, test", "ceiling, test"),
        *("speed-up", "possible"),
    ]
    assert row == [
        *("`layout-xla-default`", "", "", "", ""),
        *("0.650", "0.553", "0.752", "0.884", "0.6%", "1.8%"),
    ]
