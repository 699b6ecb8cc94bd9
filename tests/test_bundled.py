"""The bundled measurements are what their README says, and what a user may rely on."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lib.collect.xla.kernels import KERNELS, RUNS
from lib.ranking.rounds import label
from lib.settings.resolved import BUNDLED
from lib.tpugraphs.dataset import LAYOUT_COLLECTIONS
from lib.tpugraphs.npz import read_layout
from lib.tpugraphs.padding import detect_padding
from lib.tpugraphs.roots import SPLITS, DataRoot

ROOT = DataRoot(BUNDLED, BUNDLED)
FEWEST_ROUNDS = {RUNS: 4, KERNELS: 2}
FEWEST = {"random": 48, "default": 32}


@cache
def graphs(collection: str, split: str) -> list:
    folder = Path(*collection.split("-"))
    return [read_layout(path) for path in ROOT.files("npz" / folder, split)]


def clocks() -> dict[str, str]:
    """By what each program was timed."""
    programs = pl.read_parquet(ROOT.path / "programs.parquet")
    return dict(programs.select("graph", "timed_by").iter_rows())


def test_they_are_small():
    assert sum(path.stat().st_size for path in ROOT.path.rglob("*")) < 20e6


@pytest.mark.parametrize("collection", LAYOUT_COLLECTIONS)
def test_enough_programs_and_configurations(collection):
    found = {split: graphs(collection, split) for split in SPLITS}
    everything = [graph for split in SPLITS for graph in found[split]]
    assert len(everything) >= 32
    assert 0.15 <= len(found["test"]) / len(everything) <= 0.25
    for graph in everything:
        assert len(graph.node_config_feat) >= FEWEST[collection.split("-")[2]], graph.name
        assert detect_padding(graph.node_feat) == -1
        assert (graph.node_config_feat == -1).all(axis=(1, 2)).any()  # the compiler's own layouts


@pytest.mark.parametrize("collection", LAYOUT_COLLECTIONS)
def test_truth_lies_apart(collection):
    measured = ROOT.measurements(collection)
    timed_by = clocks()
    for split in SPLITS:
        for graph in graphs(collection, split):
            own = measured.filter(pl.col("graph") == graph.name)
            assert own["split"].unique().to_list() == [split]
            assert own["config"].to_list() == list(range(len(graph.config_runtime)))
            assert np.array_equal(own["runtime"], label(np.array(own["rounds"].to_list())))
            fewest = FEWEST_ROUNDS[timed_by[graph.name]]
            assert own["rounds"].list.len().min() >= fewest
            expected = own["runtime"].to_numpy() if split != "test" else 0
            assert np.array_equal(graph.config_runtime, np.broadcast_to(expected, len(own)))
