"""Networks that are trained further for one device, by which programs, and their errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from lib.programs.calibrate import tuning
from lib.programs.calibrate.tuning import NEAR, nearly_fastest, parts_of, tuned
from lib.programs.folds import all_pairs
from lib.programs.inputs import Programs, device_features, devices_of, load_programs
from lib.programs.settings import ProgramCollection
from lib.programs.train import ProgramsFold
from lib.training.fold import new_network
from tests.programs.builders import cached, tiny_plus, tiny_settings, write_root

BOTH = pytest.mark.parametrize(
    "settings", [tiny_settings(), tiny_plus()], ids=lambda one: one.model
)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_parts_have_each_task_once(tasks):
    task = np.array(tasks)
    parts = list(parts_of(task))
    assert (np.sum(parts, axis=0) == 1).all() and all(part.any() for part in parts)
    for part in parts:
        assert not set(task[part]) & set(task[~part])


def untrained(
    folder: Path, settings: ProgramCollection
) -> tuple[nn.Module, Programs, dict[str, Any]]:
    """A network, and programs that take three times as long on a device as where it was fitted."""
    cache = cached(write_root(folder / "data", tasks=4), folder / "cache")
    device = devices_of(cache)[0]
    programs = load_programs(cache, all_pairs(cache, cache.names("train")))
    programs = replace(programs, seconds=programs.seconds[:, :1])
    data = ProgramsFold(settings, programs, programs, device_features([device]))
    network = new_network(data, 0, 0)
    return network, replace(programs, seconds=3 * programs.seconds), device


@BOTH
def test_what_reads_programs_stays_as_it_is(tmp_path, monkeypatch, settings):
    monkeypatch.setattr(tuning, "PASSES", 1)
    network, programs, device = untrained(tmp_path, settings)
    before, after = network.state_dict(), tuned(network, programs, device).state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    of_devices = {id(parameter) for parameter in network.of_devices.parameters()}
    named = {name for name, parameter in network.named_parameters() if id(parameter) in of_devices}
    assert moved == named < before.keys()
    again = tuned(network, programs, device).state_dict()
    assert all(torch.equal(after[name], again[name]) for name in after)


def test_programs_nearly_as_fast_as_any_of_their_task(tmp_path):
    _, programs, _ = untrained(tmp_path, tiny_settings())
    found = nearly_fastest(programs)
    assert found.tasks == programs.tasks and len(found) < len(programs)
    for task in range(len(programs.tasks)):
        every, some = (one.seconds[one.task == task, 0] for one in (programs, found))
        assert sorted(some) == sorted(every[every <= NEAR * every.min()])
