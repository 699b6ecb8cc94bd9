"""Folds take turns on a machine's GPUs: make starts one a core, which may be more than fit.

To train, and to score.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from lib.files.locks import only_writer

ASKED = "TGRAPH_GPU_TURNS"  # of the environment: make sets it unless JOBS= says how many at a time


@contextmanager
def turn_on(device: torch.device, outputs: Path, fold: int) -> Iterator[None]:
    """Have one of the GPUs alone while the block runs; wait for it if another fold has it.

    Nothing is waited for on a CPU, or if nobody has asked for turns, or by torchrun's processes,
    which have a GPU each.

    Args:
        device: that the network will be on.
        outputs: the folder of all outputs, of which folds take turns.
        fold: by its number a GPU is chosen, unless the device names one.
    """
    if device.type != "cuda" or not os.environ.get(ASKED) or "TORCHELASTIC_RUN_ID" in os.environ:
        yield
        return
    number = fold % torch.cuda.device_count() if device.index is None else device.index
    torch.cuda.set_device(number)
    with only_writer(outputs, outputs / f"GPU {number}"):
        yield
