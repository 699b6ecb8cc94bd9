"""Parts of a pick's score, as the report shows them."""

from __future__ import annotations

import numpy as np
import pytest

from lib.cache.compress import compress
from lib.cache.graph import CachedGraph
from lib.models.common.input import input_of
from lib.models.tgraph_plus.settings import TGraphPlusSettings
from lib.preprocess.resolving import resolver
from lib.scoring.picks import MOST_PARTS, parts_of
from lib.scoring.trained import Ensemble, load_networks
from lib.scoring.weights import BUNDLED
from lib.tpugraphs.program import read_program
from tests.scoring.test_weights import TESTS

PATH = TESTS / "wavenet.w64_d3_4x4096.forward.npz"


@pytest.fixture(scope="module")
def ensemble() -> Ensemble:
    return load_networks(BUNDLED / "layout-xla-default", TGraphPlusSettings, {})


@pytest.fixture(scope="module")
def graph() -> CachedGraph:
    return compress(read_program(PATH).graph, "test", 1, None, PATH, resolver("cpu"))


def test_the_largest_parts_of_a_real_programs_scores(ensemble, graph):
    network, chosen = next(iter(ensemble.networks.values())), ensemble.settings
    seen = input_of(chosen)
    prepared = seen.prepare(graph, chosen)
    scores = seen.scores(network, prepared, 64, None)
    for configuration in np.argsort(scores)[[len(scores) // 2, -1]].tolist():
        config = int(np.flatnonzero(graph.original == configuration)[0])
        costs = [part.cost for part in seen.parts(network, prepared, configuration)]
        together, *largest = parts_of([network], graph, config, chosen)
        gap = scores[configuration] - scores[graph.original[graph.compilers_own]]
        assert together["share"] == pytest.approx(gap / np.abs(costs).sum())
        sizes = [abs(part["share"]) for part in largest]
        assert sizes == sorted(sizes, reverse=True) and len(sizes) <= MOST_PARTS
        assert sizes[0] == pytest.approx(np.abs(costs).max() / np.abs(costs).sum())
        assert all(part["where"].endswith("]") and part["what"] for part in largest)
