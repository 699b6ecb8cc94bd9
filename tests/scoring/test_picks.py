"""What the report says that the layouts of a pick cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from lib.cache.compress import compress
from lib.inputs.input import input_of
from lib.inputs.resolving import resolver
from lib.scoring.picks import MOST_PARTS, _parts_of
from lib.scoring.trained import load_networks
from lib.scoring.weights import BUNDLED
from lib.settings.models import PlusSettings
from lib.tpugraphs.program import read_program
from tests.scoring.test_weights import TESTS


def test_the_largest_parts_of_a_real_programs_scores():
    ensemble = load_networks(BUNDLED / "layout-xla-default", PlusSettings, {})
    path = TESTS / "wavenet.w64_d3_4x4096.forward.npz"
    graph = compress(read_program(path).graph, "test", 1, None, path, resolver("cpu"))
    network = next(iter(ensemble.networks.values()))
    seen = input_of(ensemble.settings)
    prepared = seen.prepare(graph, ensemble.settings)
    scores = seen.scores(network, prepared, 64, None)
    alone = replace(ensemble, networks={0: network})
    for configuration in np.argsort(scores)[[len(scores) // 2, -1]].tolist():
        config = int(np.flatnonzero(graph.original == configuration)[0])
        costs = [part.cost for part in seen.parts(network, prepared, configuration)]
        together, *largest = _parts_of(alone, graph, config)
        assert together["share"] == pytest.approx(scores[configuration] / np.abs(costs).sum())
        sizes = [abs(part["share"]) for part in largest]
        assert sizes == sorted(sizes, reverse=True) and len(sizes) <= MOST_PARTS
        assert sizes[0] == pytest.approx(np.abs(costs).max() / np.abs(costs).sum())
        assert all(part["where"].endswith("]") and part["what"] for part in largest)


def test_where_the_compiler_does_what_it_would_do_there_are_none():
    ensemble = load_networks(BUNDLED / "layout-xla-default", PlusSettings, {})
    path = TESTS / "wavenet.w64_d3_4x4096.forward.npz"
    program = read_program(path).graph
    unset = int(np.flatnonzero((program.node_config_feat == -1).all(axis=(1, 2)))[0])
    graph = compress(program, "test", 1, None, path, resolver("cpu"))
    assert _parts_of(ensemble, graph, unset) == []
