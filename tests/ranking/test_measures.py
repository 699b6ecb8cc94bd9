"""The one table of metrics, and what each kind of collection makes of it."""

from __future__ import annotations

import numpy as np
import pytest

from lib.cache.graph import CachedGraph
from lib.cache.kernel import CachedKernel
from lib.ranking.measures import Measures, measures_of
from lib.ranking.metrics import GLUE, SLOWDOWNS, TAU, ranking_metrics, tile_metrics
from lib.settings import MODELS
from lib.systems import SYSTEMS
from tests.builders import cached_graph
from tests.kernels import cached_kernel

KINDS = {name: measures_of(name) for name in SYSTEMS}
EVERY = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
ORDERS = {name: kind for name, kind in KINDS.items() if kind.ordered}  # tests/programs: others


def one_of(kind: Measures) -> CachedGraph | CachedKernel:
    if kind.name == "tile":
        kernel = cached_kernel("g", 0)
        kernel.normalizer[:] = kernel.runtime[3]
        return kernel
    graph = cached_graph(0)
    graph.dictionary[0], graph.cells[3] = 0, 0
    return graph


@pytest.mark.parametrize("kind", ORDERS.values(), ids=ORDERS)
def test_every_number_that_is_shown_is_measured(kind):
    graph = one_of(kind)
    runtimes = graph.source_runtimes
    scores = np.random.default_rng(0).normal(size=len(runtimes))
    measured = kind.measure(scores, runtimes, graph)
    shown = {one.key for one in kind.described}
    assert len(shown) == len(kind.described)
    assert shown - {kind.ceiling.key} <= set(measured)  # the ceiling is of the rounds
    assert set(kind.columns) <= set(kind.described)
    for one in kind.metrics:
        assert measured[one.key] == one.compute(scores, runtimes)
    of_training = {"layout": ranking_metrics, "tile": tile_metrics}[kind.name]
    assert set(of_training(scores, runtimes)) == {one.key for one in kind.metrics}


@pytest.mark.parametrize("kind", ORDERS.values(), ids=ORDERS)
def test_a_gain_is_told_where_the_compilers_own_was_measured(kind):
    graph = one_of(kind)
    runtimes, scores = graph.source_runtimes, np.arange(len(graph.source_runtimes))[::-1]
    own, pick = int((graph.original == 3).argmax()), runtimes[-1]
    assert graph.compilers_own == own
    found = kind.measure(scores, runtimes, graph)
    assert found["log_speedup"] == pytest.approx(np.log(runtimes[own] / pick))
    other = cached_graph(0) if kind.name == "layout" else cached_kernel("g", 0)
    assert other.compilers_own is None
    assert not {one.key for one in kind.gains} & set(kind.measure(scores, runtimes, other))


def test_settings_name_the_number_that_counts():
    for name, models in MODELS.items():
        for settings in models.values():
            assert settings.metric == KINDS[name].main.key
            assert settings.higher_is_better == KINDS[name].main.higher_is_better
            assert settings.kind == name


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("layout-xla-default", "layout"),
        ("layout:nlp:random", "layout"),
        ("tile-xla", "tile"),
        ("tile:xla:a-b.c:d", "tile"),
        ("programs-cpu", "programs"),
        ("something", "layout"),
    ],
)
def test_a_kind_is_the_first_word_of_a_name(name, kind):
    assert measures_of(name) is KINDS[kind]


@pytest.mark.parametrize(
    ("metric", "value", "plain", "text"),
    [
        (TAU, -0.12345, "-0.123", "−0.123"),
        (SLOWDOWNS[0], 0.0234, "2.3%", f"2.3{GLUE}%"),
        (TAU, None, "-", "–"),
    ],
)
def test_a_number_has_one_form(metric, value, plain, text):
    assert metric.plain(value) == plain
    assert metric.text(value) == text
