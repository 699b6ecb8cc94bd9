"""Turns on a machine's GPUs: make starts a fold a core, which may be more than a GPU can hold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from lib.files.locks import only_writer

TURNS = "TGRAPH_GPU_TURNS"  # of the environment: make sets it unless JOBS= says how many at a time


@contextmanager
def turn_on(device: torch.device, outputs: Path, fold: int) -> Iterator[None]:
    """Have one of the GPUs alone while the block runs; wait for it if another fold has it.

    Nothing is waited for on a CPU, or without :data:`TURNS`.

    Args:
        device: of the network.
        outputs: the folder of all outputs, whose folds take turns.
        fold: chooses a GPU by its number, unless the device names one.
    """
    if device.type != "cuda" or not os.environ.get(TURNS):
        yield
        return
    number = fold % torch.cuda.device_count() if device.index is None else device.index
    torch.cuda.set_device(number)
    with only_writer(outputs, outputs / f"GPU {number}"):
        yield
