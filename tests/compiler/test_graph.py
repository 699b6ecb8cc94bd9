"""A cached graph as tensors."""

from __future__ import annotations

import numpy as np
import pytest

from lib.compiler.graph import TensorGraph
from tests.compiler.builders import Builder


@pytest.mark.parametrize(
    ("digits", "order"),
    [((0, 1), (0, 1)), ((0, 0), (1, 0)), ((-1, -1), (1, 0)), ((0, 2.0**63), (1, 0))],
)
def test_a_layout_that_is_no_order_counts_as_row_major(digits, order):
    made = Builder()
    named = {f"layout_minor_to_major_{place}": digit for place, digit in enumerate(digits)}
    made.add("parameter", (4, 8), **named)
    with np.errstate(all="raise"):
        assert TensorGraph.of(made.graph([], [[]])).plain == [order]
