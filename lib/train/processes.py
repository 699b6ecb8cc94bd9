"""Processes that train one fold together, as torchrun starts them; this one alone otherwise.

Each has the whole network, the samples of a step are dealt to them, and their gradients are added
up, in one piece and in one order, so that a run that is resumed has the same bits again. (torch's
DistributedDataParallel cuts gradients into buckets anew after its first step, and a process that
has no sample in a step would have to make one up; what it gains by sending while it still computes
is nothing with networks of a few megabytes.)
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
import torch.distributed as distributed
from torch import Tensor

PATIENCE = timedelta(days=1)  # the other processes wait while the first validates


@dataclass(frozen=True)
class Processes:
    """This process and those that train the fold with it.

    Attributes:
        rank: of this process, from 0. The first process reads and writes files for all.
        count: how many there are.
        device: of the tensors that they send each other.
    """

    rank: int = 0
    count: int = 1
    device: str = "cpu"

    @property
    def first(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    def places(self, samples: int) -> range:
        """Which of a step's samples are this process's; as many for all, so some are beyond."""
        return range(self.rank, -(-samples // self.count) * self.count, self.count)

    def add_up(self, tensors: Sequence[Tensor]) -> None:
        """Put into each tensor the sum over all processes; they are of one type."""
        if self.count == 1:
            return
        whole = torch.cat([tensor.reshape(-1) for tensor in tensors])
        distributed.all_reduce(whole)
        parts = whole.split([tensor.numel() for tensor in tensors])
        for tensor, part in zip(tensors, parts, strict=True):
            tensor.copy_(part.view_as(tensor))

    def broadcast(self, value: float) -> float:
        """The first process's value. No process goes on before the first has come here."""
        return self._agreed(value if self.first else 0.0, distributed.ReduceOp.SUM)

    def least(self, value: float) -> float:
        """The least of all values. No process goes on before all have come here."""
        return self._agreed(value, distributed.ReduceOp.MIN)

    def most(self, value: float) -> float:
        """The largest of all values."""
        return self._agreed(value, distributed.ReduceOp.MAX)

    def total(self, value: float) -> float:
        """The sum of all values."""
        return self._agreed(value, distributed.ReduceOp.SUM)

    def _agreed(self, value: float, how: distributed.ReduceOp) -> float:
        if self.count == 1:
            return value
        agreed = torch.tensor(value, dtype=torch.float64, device=self.device)
        distributed.all_reduce(agreed, how)
        return agreed.item()

    @property
    def on_one_machine(self) -> bool:
        """Whether all of them see the same memory."""
        return self.count == 1 or os.environ.get("LOCAL_WORLD_SIZE") == str(self.count)


ALONE = Processes()


@contextmanager
def processes_on(device: torch.device) -> Iterator[Processes]:
    """The processes that torchrun has started, joined while the block runs.

    Args:
        device: that networks are on; of several GPUs each process takes its own.
    """
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        yield ALONE
        return
    if device.type == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=PATIENCE)
    try:
        yield Processes(distributed.get_rank(), distributed.get_world_size(), device.type)
    finally:
        distributed.destroy_process_group()
