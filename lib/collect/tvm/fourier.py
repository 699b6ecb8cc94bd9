"""Fourier transforms as products with cosines and sines, for a table of operators in parts."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.complex_tensor import ComplexTensor
from torch.nn.functional import pad

_aten = torch.ops.aten
SHORT = 128  # numbers, whose transform is one product
MOST = 2048**2  # products of a transform: a quarter of what its constants have numbers


def _waves(turns: Tensor, length: int, forward: bool) -> Tensor:
    """Return what takes real and imaginary parts (..., 2 inputs) to those of (..., 2 outputs).

    Args:
        turns: (..., inputs, outputs) steps on a circle of ``length``.
        forward: which way round.
    """
    angles = turns % length * (2 * math.pi / length)
    cosines, sines = angles.cos(), angles.sin() * (-1 if forward else 1)
    return torch.cat([torch.cat([cosines, sines], -1), torch.cat([-sines, cosines], -1)], -2)


def _transform(
    parts: Sequence[Tensor], mode: int, length: int, forward: bool, count: int, results: int = 2
) -> Sequence[Tensor]:
    """Return a transform along the last axis, in one product or in two (Cooley and Tukey 1965).

    Args:
        parts: real numbers (..., given), or real and imaginary ones; what is missing is 0.
        mode: PyTorch's, by which results are multiplied: by nothing, over a root, or a mean.
        length: of the transform.
        forward: its direction.
        count: of its numbers that there are to be.
        results: 2 for real and imaginary parts, 1 for the real ones alone.

    Raises:
        TypeError: one of the products is too large.
    """
    given, fewer = parts[0].shape[-1], range(math.isqrt(length), 0, -1)
    high = 1 if length <= SHORT else next(k for k in fewer if length % k == 0)
    low = length // high
    if length * low > MOST:
        raise TypeError(f"a Fourier transform of {length} numbers, with a factor of {low}")
    scale = length ** (0.0, -0.5, -1.0)[mode]
    if high == 1:
        turns = torch.arange(given)[:, None] * torch.arange(count)
        waves = scale * _waves(turns, length, forward)
        waves = waves[: len(parts) * given, : results * count]
        return (torch.cat([*parts], -1) @ waves).split(count, -1)
    rows, columns = -(-given // low), -(-count // high)
    whole = [pad(part, (0, rows * low - given)) for part in parts] if given % low else parts
    x = torch.cat([part.unflatten(-1, (rows, low)) for part in whole], -2)
    turns = low * torch.arange(rows)[:, None] * torch.arange(high)
    y = _waves(turns, length, forward)[: len(parts) * rows].mT @ x  # (..., 2 high, low)
    y = y.unflatten(-2, (2, high)).movedim(-2, 0).flatten(-2)  # (high, ..., 2 low)
    places = torch.arange(high)[:, None, None] + high * torch.arange(columns)
    waves = scale * _waves(torch.arange(low)[:, None] * places, length, forward)
    z = y.reshape(high, -1, 2 * low) @ waves[..., : results * columns]
    z = z.unflatten(-1, (results, columns)).movedim(0, -1).flatten(-2)[..., :count]
    return z.reshape(*y.shape[1:-1], results, count).unbind(-2)


def _to_all(
    x: ComplexTensor, axes: Sequence[int], mode: int, forward: bool = True
) -> ComplexTensor:
    """Return a transform of complex numbers, or back."""
    parts: Sequence[Tensor] = x.re, x.im
    for axis in axes:
        length, moved = x.shape[axis], [part.movedim(axis, -1) for part in parts]
        found = _transform(moved, mode, length, forward, length)
        parts = [part.movedim(-1, axis) for part in found]
    return ComplexTensor(*parts)


def _to_half(x: Tensor, axes: Sequence[int], mode: int, half: bool) -> ComplexTensor:
    """Return a transform of real numbers, of whose last axis half of the result may do."""
    *others, last = axes
    length = x.shape[last]
    count = length // 2 + 1 if half else length
    parts = _transform([x.movedim(last, -1)], mode, length, True, count)
    return _to_all(ComplexTensor(*(part.movedim(-1, last) for part in parts)), others, mode)


def _from_half(x: ComplexTensor, axes: Sequence[int], mode: int, length: int) -> Tensor:
    """Return real numbers of half of their transform, whose other half has the same numbers."""
    *others, last = axes
    x = _to_all(x, others, mode, False)
    count = torch.arange(x.shape[last])
    times = torch.where((count > 0) & (2 * count != length), 2.0, 1.0)
    moved = [part.movedim(last, -1) * times for part in (x.re, x.im)]
    (found,) = _transform(moved, mode, length, False, length, 1)
    return found.movedim(-1, last)


TRANSFORMS: dict[Any, Callable] = {
    _aten._fft_r2c.default: _to_half,
    _aten._fft_c2c.default: _to_all,
    _aten._fft_c2r.default: _from_half,
}
