"""From a few measured graphs to all of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lib.settings import settings_for
from lib.settings.models import AUTO
from lib.study.plan.costs import (
    FRAME_BYTES,
    NODE_BYTES,
    SCORE_BYTES,
    Costs,
    Shape,
    fitted,
    forecast,
    of_a_file,
    of_a_score,
    of_a_step,
)
from lib.study.plan.measure import Unit
from lib.tpugraphs.dataset import TPUGRAPHS
from lib.tpugraphs.sizes import GraphSize, official_graphs
from lib.train.schedule import MOST_PASSES, STEPS
from tests.builders import CPU_LAYOUTS

SETTINGS = settings_for("layout-xla-default", TPUGRAPHS, {"model": "tgraph"})
RATE, STEP, SCORE, LOAD = 1e-7, 4e-6, 1e-6, 1e-4  # seconds a cell, a (node, configuration), a node
RATIO = 4


def unit(configurable: int, configurations: int) -> Unit:
    """A graph on a machine whose times are known."""
    kept = RATIO * configurable
    batch = min(configurations, SETTINGS.configurations)
    return Unit(
        graphs=2,
        configurable=configurable,
        configurations=configurations,
        kept=kept,
        files_start_seconds=0.0,
        start_seconds=0.0,
        preprocess_seconds=RATE * configurable * configurations,
        cache_bytes=configurable * configurations,
        preprocess_memory=10**8 + configurable * configurations,
        load_seconds=LOAD * kept,
        step_seconds=STEP * kept * batch,
        train_memory=10**8 + 1000 * kept * batch,
        score_seconds=SCORE * kept,
        order_seconds=5 * SCORE * kept,
        infer_memory=10**8,
        device_memory=0,
        weight_bytes=1000,
    )


UNITS = [unit(20, 8000), unit(300, 1000), unit(900, 3000)]
GRAPHS = [
    *(GraphSize("train", 5000, k, c) for k, c in ((100, 4000), (200, 900), (400, 20_000))),
    GraphSize("valid", 5000, 50, 7000),
    GraphSize("test", 5000, 250, 6000),
]


@given(
    st.lists(st.floats(0, 1e3), min_size=3, max_size=3),
    st.sampled_from([of_a_file, of_a_step, of_a_score]),
)
def test_a_formula_is_found_again(coefficients, terms):
    shapes = [Shape(10, 3, 1000, 64), Shape(500, 90, 20, 20), Shape(2000, 700, 300, 64)]
    wanted = [0.01 + np.dot(coefficients[: len(terms(s))], terms(s)) for s in shapes]
    found = fitted(shapes, wanted, terms)
    for shape, value in zip(shapes, wanted, strict=True):
        assert found(shape) >= 0
        assert found(shape) == pytest.approx(value, rel=0.05)


def test_every_stage_of_a_machine_whose_times_are_known():
    said = forecast(GRAPHS, UNITS, SETTINGS, folds=4, jobs=2)
    files = sum(RATE * one.configurable * one.configurations for one in GRAPHS)
    assert said["preprocess"].each == pytest.approx(files)
    assert said["preprocess"].seconds == pytest.approx(files / 2)
    assert said["preprocess"].disk == pytest.approx(files / RATE)
    labelled, held = [one for one in GRAPHS if one.split != "test"], 1 / SETTINGS.folds_total
    step = sum(STEP * RATIO * one.configurable * 64 for one in labelled) * (1 - held)
    some, every = (
        held
        * sum(SCORE * RATIO * one.configurable * min(most, one.configurations) for one in labelled)
        for most in (SETTINGS.validation_configurations, 10**9)
    )
    load = sum(LOAD * RATIO * one.configurable for one in labelled)
    fold = load + SETTINGS.epochs * (step + some / SETTINGS.validate_every) + every
    assert said["train"].each == pytest.approx(fold)
    assert said["train"].seconds == pytest.approx(2 * fold)  # four folds, two at a time
    assert said["train"].disk == 4 * 1000
    test = 5 * SCORE * RATIO * 250 * 6000
    assert said["infer"].each == pytest.approx(test + 5 * every)


def test_memory_is_that_of_the_largest_graph_and_what_training_holds_of_all():
    said = forecast(GRAPHS, UNITS, SETTINGS, folds=1, jobs=1)
    labelled = [one for one in GRAPHS if one.split != "test"]
    nodes = sum(RATIO * one.configurable for one in labelled)
    cells = sum(one.configurable * one.configurations for one in labelled)  # all read in time
    step = 1e8 + 1000 * RATIO * 400 * 64
    assert said["train"].memory == pytest.approx(step + NODE_BYTES * nodes + cells)
    once = forecast(GRAPHS, UNITS, replace(SETTINGS, epochs=1), folds=1, jobs=1)
    assert said["train"].memory - once["train"].memory > 1e6  # one pass reads some of the cells
    assert said["preprocess"].memory == pytest.approx(1e8 + 400 * 20_000)
    assert said["train"].device_memory == 0
    on_gpu = [replace(one, device_memory=one.train_memory) for one in UNITS]
    gpu = forecast(GRAPHS, on_gpu, SETTINGS, folds=1, jobs=1)
    assert gpu["train"].device_memory == pytest.approx(step)


def test_what_a_fold_scores_is_written_and_held():
    held = 1 / SETTINGS.folds_total
    for learned, share in ((False, held), (True, 1.0)):
        settings = replace(SETTINGS, score_training=learned)
        said = forecast(GRAPHS, UNITS, settings, folds=1, jobs=1)["infer"]
        counts = [one.configurations * (1 if one.split == "test" else share) for one in GRAPHS]
        cells = sum(c * one.configurable for c, one in zip(counts, GRAPHS, strict=True))
        assert said.disk == pytest.approx(10 * SCORE_BYTES * sum(counts))
        assert said.memory == pytest.approx(1e8 + cells + 10 * FRAME_BYTES * sum(counts))


def test_whole_graphs_keep_every_node():
    whole = settings_for("layout-xla-default", TPUGRAPHS, {"model": "gst"})
    assert Costs(UNITS, whole).shape(GRAPHS[0]).kept == 5000
    assert Costs(UNITS, SETTINGS).shape(GRAPHS[0]).kept == RATIO * 100


def test_more_of_anything_takes_no_less():
    few, many = (
        forecast(official_graphs("layout-xla-default", share), UNITS, SETTINGS, 5, 1)
        for share in (0.2, 1.0)
    )
    for stage in few:
        assert few[stage].seconds <= many[stage].seconds
        assert few[stage].disk <= many[stage].disk


def test_of_ten_times_the_graphs_there_are_fewer_passes():
    settings = settings_for("layout-xla-default", CPU_LAYOUTS, {"also": "none"})
    few, many, fixed = (
        forecast(GRAPHS[:1] * count, UNITS, replace(settings, epochs=epochs), folds=4, jobs=2)
        for count, epochs in (
            (STEPS // MOST_PASSES, AUTO),
            (10 * STEPS // MOST_PASSES, AUTO),
            (10 * STEPS // MOST_PASSES, MOST_PASSES),
        )
    )
    assert few["train"].each < many["train"].each < 3 * few["train"].each
    assert fixed["train"].each > 9 * few["train"].each


def test_other_collections_are_preprocessed_and_learned_from():
    alone = forecast(GRAPHS, UNITS, SETTINGS, folds=4, jobs=2)
    others = [GraphSize("train", 5000, 150, 3000), GraphSize("test", 5000, 900, 90_000)]
    said = forecast(GRAPHS, UNITS, SETTINGS, folds=4, jobs=2, others=others)
    files = sum(RATE * one.configurable * one.configurations for one in others)
    assert said["preprocess"].each - alone["preprocess"].each == pytest.approx(files)
    learned = 1 - 1 / SETTINGS.folds_total
    step = learned * STEP * RATIO * 150 * 64 * SETTINGS.epochs + learned * LOAD * RATIO * 150
    assert said["train"].each - alone["train"].each == pytest.approx(step)
    for stage in ("infer", "ensemble"):
        assert said[stage] == alone[stage]
