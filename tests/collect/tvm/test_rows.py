"""Rows that no tile divides are filled up, and a network computes what it did."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="needs TVM, see lib/collect/tvm/requirements.txt")

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lib.collect.tvm.compiler import Sampler
from lib.collect.tvm.graph import graph_of
from lib.collect.tvm.importing import imported
from lib.collect.tvm.networks import Network
from lib.collect.tvm.rows import filled
from lib.collect.tvm.tiles import tilings
from tests.collect.tvm.test_importing import Does

NORMED = (nn.Linear(64, 128), nn.LayerNorm(128), nn.Linear(128, 128), nn.GELU())
FILLED = {
    "a line": lambda: (nn.Sequential(*NORMED), (torch.randn(1, 37, 64),)),
    "a batch of one": lambda: (nn.Sequential(*NORMED), (torch.randn(37, 1, 64),)),
    "a sequence": lambda: (nn.Conv1d(16, 128, 3, 2, padding=1), (torch.randn(1, 16, 57),)),
    "an image": lambda: (
        nn.Sequential(nn.Conv2d(16, 32, (1, 7), padding=(0, 3)), nn.ReLU()),
        (torch.randn(1, 16, 17, 17),),
    ),
    "pixels of a line of 13": lambda: (
        nn.Sequential(nn.Conv2d(16, 48, 1), nn.ReLU()),
        (torch.randn(2, 16, 13, 13),),
    ),
    "scores": lambda: (Does(lambda x, y: x @ y), (torch.randn(2, 39, 8), torch.randn(2, 8, 128))),
}
LEFT = {
    "a line of 13 in steps": lambda: (nn.Conv2d(16, 48, 1, 2), (torch.randn(1, 16, 25, 25),)),
    "a line of 13 in groups": lambda: (
        nn.Conv2d(32, 48, 1, groups=2),
        (torch.randn(1, 32, 13, 13),),
    ),
    "padded to 13": lambda: (nn.Conv2d(16, 48, 1, padding=1), (torch.randn(1, 16, 11, 11),)),
    "a vector": lambda: (nn.Linear(64, 128), (torch.randn(64),)),
    "by a vector": lambda: (Does(lambda x, y: x @ y), (torch.randn(41, 64), torch.randn(64))),
    "few": lambda: (nn.Linear(64, 128), (torch.randn(7, 64),)),
    "narrow": lambda: (nn.Linear(64, 48), (torch.randn(41, 64),)),
    "even images": lambda: (nn.Conv2d(16, 128, 1), (torch.randn(1, 16, 14, 14),)),
}


@given(st.integers(1, 1 << 17))
def test_tiles_divide_rows_that_are_filled_up(rows):
    assert rows <= filled(rows) < rows + 4
    assert filled(rows) == rows or all(rows % tile for tile in (4, 5, 6, 8, 10, 12))
    assert any(filled(rows) % tile == 0 for tile in (4, 5, 6))


@pytest.mark.parametrize("name", [*FILLED, *LEFT])
def test_it_computes_what_it_did(name):
    network = imported(Network(name, (FILLED | LEFT)[name]))  # which compares with PyTorch
    graph = graph_of(network)
    products = [
        task
        for task, operators in zip(graph.tasks, graph.names, strict=True)
        if operators.startswith(("matmul", "conv"))
    ]
    assert any("strided_slice" in operators for operators in graph.names) == (name in FILLED)
    assert name in LEFT or all(tilings(Sampler(task, 0), 8, 3) for task in products)
