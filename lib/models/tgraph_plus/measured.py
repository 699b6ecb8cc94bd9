"""Layout copies that were measured by themselves (``lib/collect/xla/copies.py``), as tensors."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from lib.compiler.cpu.moves import MovedTensor, memory_features
from lib.compiler.cpu.resolved import WIDTHS
from lib.compiler.orders import row_major

WIDTH = 4  # bytes of an element
FIELDS = ("shape", "before", "after", "microseconds")


@dataclass(frozen=True)
class MeasuredCopies:
    """m copies of no program in particular.

    Attributes:
        features: (m, width) float32, of effects of all kinds; those of copies in no program are
            known, the others zero.
        known: (width,) booleans.
        costs: (m,) float32, logarithms of microseconds a byte, less their mean.
    """

    features: Tensor
    known: Tensor
    costs: Tensor


def measured_copies(path: Path) -> MeasuredCopies:
    """Return the copies of a file that ``lib/collect/xla/copies.py`` wrote."""
    with np.load(path, allow_pickle=False) as file:
        columns = [file[name].tolist() for name in FIELDS]
    rows, costs = [], []
    for *parts, time in zip(*columns, strict=True):
        shape, source, target = (tuple(d for d in part if d >= 0) for part in parts)
        size = float(WIDTH * prod(shape))
        moved = MovedTensor(shape, row_major(len(shape)), size)
        rows.append(memory_features(moved, source, target))
        costs.append(np.log(time / size))
    features = np.zeros((len(rows), sum(WIDTHS)), np.float32)
    known = np.arange(features.shape[1]) < len(rows[0])
    features[:, known] = rows
    logarithms = np.array(costs, np.float32)
    return MeasuredCopies(
        torch.from_numpy(features),
        torch.from_numpy(known),
        torch.from_numpy(logarithms - logarithms.mean()),
    )
