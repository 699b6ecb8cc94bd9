"""Whole networks as graphs of tensor programs, with TVM itself; skipped where there is none."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("tvm", reason="needs TVM, see lib/collect/tvm/requirements.txt")


from lib.collect.tvm import whole
from lib.collect.tvm.compiler import Sampler, decisions_of, hash_of
from lib.collect.tvm.extract import extract
from lib.collect.tvm.graph import Call, Graph, graph_of, read_between
from lib.collect.tvm.importing import imported
from lib.collect.tvm.networks import named
from lib.collect.tvm.plan import network_path
from lib.collect.tvm.tiles import tilings
from lib.files.artifacts import read_json
from lib.programs.messages import receive, started
from tests.collect.tvm.test_tiles import product

BRANCHES = """
import torch
from torch import nn

class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.left, self.right = (nn.Linear(24, 24) for _ in range(3))

    def forward(self, x):
        x = torch.relu(self.first(x))
        left, right = torch.tanh(self.left(x)), torch.sigmoid(self.right(x))
        return torch.softmax(left @ right.transpose(0, 1), -1)

def network(batch):
    return Branches(), (torch.zeros(batch, 24),)
"""


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    path = tmp_path_factory.mktemp("mine") / "mine.py"
    path.write_text(BRANCHES)
    return path


@pytest.fixture(scope="module")
def graph(mine):
    return graph_of(imported(named(f"{mine}:network", 4)))


def test_calls_wait_for_what_they_read(graph):
    assert graph.calls[0].after == ()
    branches = [k for k, one in enumerate(graph.calls) if one.after == (0,)]
    assert len(branches) == 2  # the left and the right one, neither of which waits for the other
    read = {k for one in graph.calls for k in one.after}
    assert len({*range(len(graph.calls))} - read) == 1  # the softmax
    assert any(len(one.after) == 2 for one in graph.calls)


def test_tasks_are_those_that_are_measured(mine, graph, tmp_path):
    """With the hashes that MetaSchedule's own extraction gives, and as many calls."""
    network = named(f"{mine}:network", 4)
    extract(network, tmp_path)
    rows = read_json(network_path(tmp_path, network.name))["tasks"]
    hashes = [hash_of(one) for one in graph.tasks]
    counts = np.bincount([one.task for one in graph.calls]).tolist()
    assert dict(zip(hashes, counts, strict=True)) == {row["task"]: row["calls"] for row in rows}
    assert set(graph.functions.values()) == set(range(len(hashes)))


def test_what_is_written(mine, tmp_path, graph):
    """What lib/programs/latency/network.py reads, in an environment of its own."""
    path = tmp_path / "a.npz"
    whole.main([f"{mine}:network", str(path), "--batch", "4", "--schedules", "3", "--seed", "1"])
    with np.load(path, allow_pickle=False) as file:
        about = json.loads(file["about"].item())
        owner, leaves = file["owner"], file["leaves"]
        assert len(owner) == len(leaves) == len(file["hash"]) == len(file["joined"])
        assert leaves.sum() == len(file["features"])
        assert file["nodes"].sum() == len(file["depth"])
    assert about["network"] == f"{mine}:network"
    assert [(one["task"], tuple(one["after"])) for one in about["calls"]] == [
        (one.task, one.after) for one in graph.calls
    ]
    assert [one["operators"] for one in about["tasks"]] == list(graph.names)
    assert (np.diff(owner) >= 0).all()
    assert set(np.bincount(owner).tolist()) <= {1, 2, 3}


def test_the_program_of_a_search_is_what_the_predictor_likes_best(mine, tmp_path):
    """Of a predictor that likes what has few loops; and all that is said on the way."""
    path, asked, kinds = tmp_path / "a.npz", {}, []
    command = [sys.executable, "-m", "lib.collect.tvm.whole", f"{mine}:network", str(path)]
    with started([*command, "--batch", "4", "--budget", "2"]) as (child, answer):
        while message := receive(child.stdout):
            metadata, arrays = message
            if metadata["kind"] != "predict":
                kinds.append((metadata["kind"], metadata.get("done")))
                answer({})
                continue
            asked.setdefault(metadata["task"], []).extend(arrays["nodes"].tolist())
            answer({"logs": arrays["nodes"].astype(np.float64)})
    with np.load(path, allow_pickle=False) as file:
        tasks = [task["task"] for task in json.loads(file["about"].item())["tasks"]]
        assert file["owner"].tolist() == [*range(len(tasks))]
        assert file["nodes"].tolist() == [min(asked[task]) for task in tasks]
    assert asked.keys() == {*tasks} and len(min(asked.values(), key=len)) > 1
    number = len(tasks)
    assert kinds[: number + 1] == [*(("drawn", k + 1) for k in range(number)), ("first", None)]
    assert kinds[number + 1 :] == [("searched", k + 1) for k in range(len(kinds) - number - 1)]
    assert len(kinds) > number + 1


def test_tiles_are_of_the_vectors_of_the_device(monkeypatch):
    task = product(28, 64, 96)
    likes_all = SimpleNamespace(tell=lambda *message: {"logs": np.zeros(len(message[2]["leaves"]))})
    best = {}
    for lanes in (8, 16):
        work = whole.Work([task], 0, 1, lanes, likes_all)
        monkeypatch.setattr(whole, "WORK", work, raising=False)
        (_, best[lanes]), _ = whole.drawn(0)
        first = tilings(Sampler(task, 0), lanes, whole.TILED)[0]
        assert best[lanes] == decisions_of(first)
    assert best[8] != best[16]


STEPS = """
import torch

class Steps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)

    def forward(self, x):
        hidden = torch.zeros_like(x[0])
        for step in x:
            hidden = torch.tanh(self.layer(hidden) + step)
        return hidden

def network():
    return Steps(), (torch.randn(2, 3, 8),)
"""


def test_a_network_that_makes_zeros_is_written_without_them(tmp_path):
    (tmp_path / "mine.py").write_text(STEPS)
    name = f"{tmp_path / 'mine.py'}:network"
    graph = graph_of(network := imported(named(name, 1)))
    assert any("zeros" in str(variable) for variable in network.module.get_global_vars())
    whole.main([name, str(tmp_path / "steps.npz"), "--schedules", "1"])
    with np.load(tmp_path / "steps.npz", allow_pickle=False) as file:
        assert (file["leaves"] > 0).all()
        about = json.loads(file["about"].item())
    assert not any("zeros" in task["operators"] for task in about["tasks"])
    assert len(about["tasks"]) == len(graph.tasks) > 0


def test_weights_that_are_read_again_at_once_are_in_the_caches():
    calls = [Call(0, (), ((0, 8),))] * 4 + [Call(1, (), ((1, 100),)), Call(1, (), ((2, 50),))]
    graph = Graph(tuple(calls), (None, None), ("step", "layer"), {})
    assert read_between(graph, 158) == [0, 158]
