"""A network trained on, with programs of one device alone: for one that is unlike all others.

What it reads of programs stays as it is: a thousand programs teach what is different on a device,
and would spoil what many more have taught of programs.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from lib.programs.adapt.tuning import drawn
from lib.programs.inputs import Programs, device_features
from lib.programs.losses import relative_of_logarithms

PASSES = 10  # of :data:`lib.programs.adapt.tuning.EPOCH` steps
RATE, RISING = 5e-4, 0.1  # the largest learning rate, and the share of steps until it is reached
BATCH = 96
RELATIVE = 0.5  # of the loss; the rest pulls what is far off


def tuned(network: nn.Module, programs: Programs, device: Mapping[str, Any]) -> nn.Module:
    """A copy of a network, trained further; in evaluation mode. The same on every call.

    Args:
        network: of the predictor.
        programs: with (n, 1) seconds on the device.
        device: as the data have devices.
    """
    made, where = copy.deepcopy(network).eval().requires_grad_(False), device_features([device])
    layers = made.of_devices.train().requires_grad_(True)
    labels = torch.from_numpy(np.log(programs.seconds))
    generator = np.random.default_rng(0)
    batches = [batch for _ in range(PASSES) for batch in drawn(programs.counts, BATCH, generator)]
    optimizer = torch.optim.AdamW(layers.parameters(), lr=RATE, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, RATE, total_steps=len(batches) + 1, pct_start=RISING
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)  # of what is dropped out
        for rows, weight in batches:
            logs = made.log_seconds(programs.batch(rows, where))
            loss = weight * relative_of_logarithms(logs, labels[rows], RELATIVE, 0.0)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    return made.eval()
