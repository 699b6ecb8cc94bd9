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
from lib.files.errors import DataError
from lib.files.foreign import reading

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
    """The copies of a file; raises DataError if the file is not what ``lib/collect/xla/copies.py``
    writes."""
    shapes, before, after, times = _read(path)
    rows, costs = [], []
    for *parts, time in zip(shapes, before, after, times, strict=True):
        shape, source, target = (tuple(d for d in part if d >= 0) for part in parts)
        if not sorted(source) == sorted(target) == list(range(len(shape))):
            raise DataError(path, "before, after", (source, target), f"orders of {shape}")
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


def _read(path: Path) -> list[list]:
    """The columns of a file of measured copies, ``FIELDS``."""
    expected = "what lib.collect.xla.copies writes"
    with reading(path, "copies", expected), np.load(path, allow_pickle=False) as file:
        columns = {name: file[name] for name in FIELDS}
    for name, column in columns.items():
        if len(column) != len(columns["shape"]) or not len(column):
            raise DataError(path, name, column.shape, "a row for each copy")
    if not (columns["microseconds"] > 0).all():
        raise DataError(path, "microseconds", "0 or less", "more than 0")
    return [columns[name].tolist() for name in FIELDS]
