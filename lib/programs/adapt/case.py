"""What is known when a predictor is brought to another device, and what is not to be looked at.

Latencies of the target device go through :meth:`Case.visible` or are left out: whatever learns or
predicts is given what it returns, in which only the chosen tasks have latencies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from lib.cache.reader import Cache
from lib.files.errors import UserError
from lib.programs.folds import all_pairs
from lib.programs.inputs import (
    PEAK,
    Programs,
    batches_of,
    device_features,
    device_named,
    devices_of,
    load_programs,
)
from lib.programs.models.cdmpp import DEVICE_FEATURES, LEAF_FEATURES, LOOP_FEATURES, ProgramBatch
from lib.programs.models.cdmpp_plus import log_work
from lib.programs.tensorir.features import COUNTED, FEATURES

# The last and the dominant leaf, and the loops of either; size of the tree, leaves, work.
POOLED = 2 * (LEAF_FEATURES + LOOP_FEATURES) + 3
READ = 4096  # programs whose pooled features are computed at a time
SHARED = 0.5  # of a target's programs that a source has measured


@dataclass(frozen=True, eq=False)
class Case:
    """Programs, and their latencies on the source devices and the target.

    Attributes:
        programs: of the tasks that may be learned from; the target's seconds are the last column.
        test: of the tasks of networks that are kept for the test; nothing is learned from them.
        devices: (k + 1, 11) features, the target's last.
        names: of the devices.
        numbers: of the devices in the cache.
    """

    programs: Programs
    test: Programs
    devices: Tensor
    names: tuple[str, ...]
    numbers: tuple[int, ...]

    def visible(self, chosen: np.ndarray) -> Visible:
        """The case as it is known when some tasks, by number, were measured on the target."""
        hidden = self.programs.seconds.copy()
        hidden[~np.isin(self.programs.task, chosen), -1] = np.nan
        blank = np.full_like(self.test.seconds, np.nan)
        return Visible(
            programs=replace(self.programs, seconds=hidden),
            test=replace(self.test, seconds=blank),
            devices=self.devices,
        )


@dataclass(frozen=True, eq=False)
class Visible:
    """As :class:`Case`, without what is not known: unknown seconds are NaN."""

    programs: Programs
    test: Programs
    devices: Tensor

    @property
    def known(self) -> np.ndarray:
        """(n,) whether a program was measured on the target."""
        return np.isfinite(self.programs.seconds[:, -1])

    @property
    def target(self) -> np.ndarray:
        """Logarithms of the seconds of the programs that were measured on the target."""
        return np.log(self.programs.seconds[self.known, -1])


def load_case(cache: Cache, target: str, sources: Sequence[str] | None) -> Case:
    """The case of one device of a cache, from other devices.

    Args:
        cache: of tensor programs.
        target: a device's name or instruction set.
        sources: known devices; an instruction set names that of the target's processor if it has
            it. ``None`` for the devices that :func:`alike` finds.

    Raises:
        UserError: there is no such device, or no source.
    """
    devices = devices_of(cache)
    last = device_named(target, devices)
    sides = (("train", "valid"), ("test",))
    parts = [load_programs(cache, all_pairs(cache, cache.names(*splits))) for splits in sides]
    if sources is None:
        others = alike(parts[0].seconds, last)
    else:
        same = devices[last]["processor"]
        others = list(dict.fromkeys(device_named(name, devices, same) for name in sources))
    if last in others or not others:
        raise UserError(f"device {target!r}: needs sources, which are other devices")
    numbers = (*others, last)
    programs, test = (replace(part, seconds=part.seconds[:, numbers]) for part in parts)
    features = device_features(devices)[[*numbers]]
    features[-1, PEAK] = features[:-1, PEAK].mean()  # the target's would tell of its latencies
    return Case(programs, test, features, tuple(devices[k]["name"] for k in numbers), numbers)


def alike(seconds: np.ndarray, target: int) -> list[int]:
    """The other devices that measured at least half of the programs that the target did.

    A source's latency says something of a program on the target; of other programs, only a
    predictor that learned from the source does. If no device measured so many, all other devices.

    Args:
        seconds: (n, d), NaN where nothing was measured.
        target: its column.
    """
    measured = np.isfinite(seconds)
    shared = measured[measured[:, target]].mean(0) >= SHARED
    others = [k for k in range(seconds.shape[1]) if k != target]
    return [k for k in others if shared[k]] or others


def pooled_rows(programs: Programs) -> np.ndarray:
    """(n, ``POOLED``) float32: each program as one row, the work last."""
    rows = np.empty((len(programs), POOLED), np.float32)
    operations = torch.tensor(COUNTED)
    loops, nowhere = FEATURES.index("loops_product"), torch.zeros((1, DEVICE_FEATURES))
    for numbers in batches_of(programs.counts, READ):
        batch = programs.batch(numbers, nowhere)
        features = batch.features.float()
        rows[numbers] = pooled(batch, features, log_work(features, operations, loops)).numpy()
    return rows


def pooled(batch: ProgramBatch, features: Tensor, work: Tensor) -> Tensor:
    """Features of programs as one row each, (b, ``POOLED``).

    Args:
        batch: b programs of l leaves.
        features: its (b, l, 164) float32, log2(1 + x).
        work: (b, l) of the leaves, see :func:`log_work`; the dominant one has most.
    """
    programs, leaves, _ = features.shape
    first, dominant = torch.arange(programs, device=features.device), work.argmax(1)
    loops = batch.loops.float()
    parts = (
        features[:, -1],
        features[first, dominant],
        loops[:, -1],
        loops[first, dominant],
        batch.position.amax(1, keepdim=True).float(),
        torch.full_like(work[:, :1], leaves),
        torch.logsumexp(work, 1, keepdim=True),
    )
    return torch.cat(parts, 1)
