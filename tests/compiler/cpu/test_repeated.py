"""What a network reads of operations that a library call computes more than once."""

from __future__ import annotations

import numpy as np
import pytest

from lib.compiler.cpu.effects import RepeatedOperation
from lib.compiler.cpu.features import REPEATED_FEATURES, WORK, repeated_features, repeated_work
from lib.models.tgraph_plus.inputs import CopiesGraph
from tests.compiler.builders import PLAIN, resolved
from tests.compiler.cpu.test_calls import calls_of, chain


def test_features_and_work_of_a_convolution():
    made, nodes = chain()
    library = calls_of(made, [nodes["first"], nodes["second"]]).library
    operation = RepeatedOperation(nodes["first"], 6.0)
    found = dict(zip(REPEATED_FEATURES, repeated_features(library, operation), strict=True))
    assert found["repeated.is_convolution"] == 1 and found["repeated.is_dot"] == 0
    assert found["repeated.times"] == pytest.approx(np.log2(6) / 8)
    assert found["repeated.work"] == pytest.approx(np.log2(9 * 384) / 8)
    once = 4 * 16 * 384 * 9 * 384 / WORK  # bytes of the output, multiplications for an element
    assert repeated_work(library, operation) == pytest.approx(5 * once)


def test_only_where_the_call_is_whole():
    made, nodes = chain()
    configurations = [[((), (), ()), ((), (), ())], [(PLAIN, (), ()), ((), (), ())]]
    graph = made.graph([nodes["first"], nodes["second"]], configurations)
    batch = CopiesGraph(resolved(graph)).batch(np.arange(2))
    repeated = batch.kinds == 2
    assert repeated.sum() == 1 and (batch.sizes[repeated] > 0).all()
    assert batch.places[repeated[batch.places[:, 1]], 0].tolist() == [0]
    assert batch.features[repeated][:, -len(REPEATED_FEATURES) :].any()
    assert not batch.features[repeated][:, : -len(REPEATED_FEATURES)].any()
