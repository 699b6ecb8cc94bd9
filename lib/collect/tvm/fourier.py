"""Fourier transforms as products with cosines and sines, for a table of operators in parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.complex_tensor import ComplexTensor

_aten = torch.ops.aten
LONGEST = 2048  # a longer one has too many products


def _waves(rows: int, columns: int, length: int) -> tuple[Tensor, Tensor]:
    """Return cosines and sines (rows, columns) of all turns of a transform of a length.

    Raises:
        TypeError: it is too long.
    """
    if length > LONGEST:
        raise TypeError(f"a Fourier transform of {length} numbers, more than {LONGEST}")
    turns = torch.arange(rows)[:, None] * torch.arange(columns) % length
    angles = turns * (2 * math.pi / length)
    return angles.cos(), angles.sin()


def _along(x: Tensor, axis: int, matrix: Tensor) -> Tensor:
    return (x.movedim(axis, -1) @ matrix).movedim(-1, axis)


def _scaled(mode: int, sizes: Sequence[int]) -> float:
    """Return by what a result is multiplied: PyTorch's modes are nothing, a root, and a mean."""
    return math.prod(sizes) ** (0.0, -0.5, -1.0)[mode]


def _to_all(
    x: ComplexTensor, axes: Sequence[int], mode: int, forward: bool = True
) -> ComplexTensor:
    """Return a transform of complex numbers, or back."""
    real, imaginary, scale = x.re, x.im, _scaled(mode, [x.shape[axis] for axis in axes])
    for axis in axes:
        cosines, sines = _waves(*[x.shape[axis]] * 3)
        sines = sines if forward else -sines
        parts = [_along(part, axis, cosines) for part in (real, imaginary)]
        crossed = [_along(part, axis, sines) for part in (real, imaginary)]
        real, imaginary = parts[0] + crossed[1], parts[1] - crossed[0]
    return ComplexTensor(real * scale, imaginary * scale)


def _to_half(x: Tensor, axes: Sequence[int], mode: int, half: bool) -> ComplexTensor:
    """Return a transform of real numbers, of whose last axis half of the result may do."""
    *others, last = axes
    length = x.shape[last]
    cosines, sines = _waves(length, length // 2 + 1 if half else length, length)
    scale = _scaled(mode, [length])
    found = ComplexTensor(_along(x, last, cosines) * scale, _along(x, last, -sines) * scale)
    return _to_all(found, others, mode)


def _from_half(x: ComplexTensor, axes: Sequence[int], mode: int, length: int) -> Tensor:
    """Return real numbers of half of their transform, whose other half has the same numbers."""
    *others, last = axes
    x = _to_all(x, others, mode, False)
    count = torch.arange(x.shape[last])
    times = torch.where((count > 0) & (2 * count != length), 2.0, 1.0)[:, None]
    cosines, sines = _waves(x.shape[last], length, length)
    found = _along(x.re, last, times * cosines) - _along(x.im, last, times * sines)
    return found * _scaled(mode, [length])


TRANSFORMS: dict[Any, Callable] = {
    _aten._fft_r2c.default: _to_half,
    _aten._fft_c2c.default: _to_all,
    _aten._fft_c2r.default: _from_half,
}
