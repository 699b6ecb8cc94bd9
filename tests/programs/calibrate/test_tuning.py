"""A network that is trained further, for one device."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from lib.models.common.build import network_for
from lib.programs.calibrate.tuning import tuned
from lib.programs.folds import all_pairs
from lib.programs.inputs import Programs, device_features, devices_of, load_programs
from lib.programs.settings import ProgramCollection
from lib.programs.train import ProgramsFold
from lib.training.fold import new_network
from tests.programs.builders import cached, tiny_plus, tiny_settings, write_root


def untrained(
    folder: Path, settings: ProgramCollection
) -> tuple[nn.Module, Programs, dict[str, Any]]:
    """A network, and programs that take three times as long on a device as where it was fitted."""
    cache = cached(write_root(folder / "data", tasks=4), folder / "cache")
    device = devices_of(cache)[0]
    programs = load_programs(cache, all_pairs(cache, cache.names("train")))
    programs = replace(programs, seconds=programs.seconds[:, :1])
    data = ProgramsFold(programs, programs, device_features([device]), settings)
    network = new_network(lambda: network_for(settings), data, 0, 0)
    return network, replace(programs, seconds=3 * programs.seconds), device


@pytest.mark.parametrize("settings", [tiny_settings(), tiny_plus()], ids=["cdmpp", "cdmpp-plus"])
def test_what_reads_programs_stays_as_it_is(tmp_path, settings):
    network, programs, device = untrained(tmp_path, settings)
    before, after = network.state_dict(), tuned(network, programs, device).state_dict()
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    of_devices = {id(parameter) for parameter in network.of_devices.parameters()}
    named = {name for name, parameter in network.named_parameters() if id(parameter) in of_devices}
    assert moved == named < before.keys()
    again = tuned(network, programs, device).state_dict()
    assert all(torch.equal(after[name], again[name]) for name in after)


def test_latencies_move_towards_what_was_measured(tmp_path):
    network, programs, device = untrained(tmp_path, tiny_plus())
    rows = np.flatnonzero(programs.counts == programs.counts[0])

    def gap(predictor: nn.Module) -> float:
        batch = programs.batch(rows, device_features([device]))
        with torch.inference_mode():
            logs = predictor.eval().log_seconds(batch).numpy()
        return float(np.abs(logs - np.log(programs.seconds[rows])).mean())

    assert gap(tuned(network, programs, device)) < 0.9 * gap(network)
