"""Rows that go to places of another tensor: programs of TVM, as PyTorch computes them."""

from __future__ import annotations

import pytest

pytest.importorskip("tvm", reason="needs TVM, see lib/collect/tvm/requirements.txt")

import torch
from torch import nn

from lib.collect.tvm.compiler import Sampler, by_hand, decisions_of, rebuilt
from lib.collect.tvm.graph import graph_of
from lib.collect.tvm.importing import imported
from lib.collect.tvm.networks import Network
from lib.collect.tvm.plain import unscheduled
from lib.collect.tvm.scattering import PLACED
from lib.collect.tvm.tiles import tilings
from lib.files.errors import UserError


class Edges(nn.Module):
    """What layers of graph networks and of recommenders do with rows, in several ways."""

    def __init__(self):
        super().__init__()
        self.bags = nn.EmbeddingBag(9, 3, mode="mean", padding_idx=2)

    def forward(self, x, rows, index, each, starts):
        places, nothing = index[:, None].expand_as(rows), x * 0
        return (
            nothing.index_add(0, index, rows) * 2,
            nothing.scatter_add(0, places, rows),
            nothing.scatter_reduce(0, places, rows, "amax", include_self=False),
            nothing.scatter_reduce(0, places, rows, "mean", include_self=False),
            x.T.index_add(1, index, rows.T),
            x.scatter_add(0, each, rows),
            x.scatter(1, each[:5, :1] % 3, 7.0),
            torch.zeros(5).index_add(0, index, rows[:, 0]),
            torch.zeros(5, dtype=torch.int64).index_add(0, index, index),
            self.bags(index, starts),
            *caches(rows.reshape(2, 10, 2, 3), each[:4, 0], x[:4]),
        )


def caches(x, places, new):
    """What decoders do with what they keep of the steps before, in several ways."""
    places = places[:2] + torch.arange(2) * 5  # twice the same has no order
    new = new.reshape(2, 2, 1, 3).expand(2, 2, 2, 3)
    put, pairs, low = x.clone(), x.clone(), x.clone()
    put[:, places] = new
    pairs[:, places, -places % 2] = 7.0
    low[low < 0] = 0.0
    summed = x.index_put((places * 0, places * 0), new[0], accumulate=True)
    return x.index_copy(1, places, new), put, pairs, low, summed


class Remembers(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("before", torch.zeros(2, 3))

    def forward(self, x):
        self.before[:1] = x
        return self.before * 2


def test_a_network_that_changes_its_buffers_is_refused():
    with pytest.raises(UserError, match="changes its buffers before: a library remembers nothing"):
        imported(Network("state", lambda: (Remembers(), (torch.randn(1, 3),))))


def test_rows_go_to_their_places_as_in_pytorch():
    torch.manual_seed(1)
    x, rows = torch.randn(5, 3), torch.randn(40, 3)
    inputs = x, rows, torch.randint(0, 4, (40,)), torch.randint(0, 5, (40, 3))
    inputs += (torch.tensor([0, 3, 3, 20]),)
    network = imported(Network("edges", lambda: (Edges(), inputs)))  # fails if they differ
    placed = [task for task in graph_of(network).tasks if PLACED in task.script()]
    indices = [[len(p.shape) for p in task["main"].params if p.dtype == "int64"] for task in placed]
    assert len(placed) >= 11 and [2] in indices and indices.count([1]) >= 8
    for task in placed:
        assert by_hand(task)
        (plain,) = unscheduled(task)
        (drawn,) = tilings(sampler := Sampler(task, 0), 8, 4)
        for schedule in (plain, drawn, *sampler.draw(1)):
            again = rebuilt(task, decisions_of(schedule))
            assert again.mod.script() == task.script() and len(schedule.trace.insts)
