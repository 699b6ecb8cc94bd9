"""Rows and numbers at places that indices say: read from there, and put there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

SET = "set"  # a number at its place, whatever was there


def index(x: Tensor, indices: Sequence[Tensor | None]) -> Any:
    """Return what some tensors of indices choose, as rows of all axes that they are of."""
    places = [k for k, index in enumerate(indices) if index is not None]
    tensors = torch.broadcast_tensors(*(indices[k] for k in places))
    if tensors[0].dtype == torch.bool:
        return NotImplemented
    first = places[0] if places == [*range(places[0], places[-1] + 1)] else 0
    x = x.movedim(places, [*range(first, first + len(places))])
    row = _row_of(tensors, x.shape[first:])
    x = x.flatten(first, first + len(places) - 1)
    chosen = x.index_select(first, row.flatten())
    return chosen.reshape(*x.shape[:first], *row.shape, *x.shape[first + 1 :])


def _row_of(indices: Sequence[Tensor], shape: Sequence[int]) -> Tensor:
    """Return which row of all axes that indices are of they choose."""
    row = torch.zeros_like(indices[0])
    for index, size in zip(indices, shape, strict=False):
        row = row * size + torch.where(index < 0, index + size, index)
    return row


def put(
    x: Tensor, indices: Sequence[Tensor | None], values: Tensor, accumulate: bool = False
) -> Any:
    """Return a tensor with values where some tensors of indices say, as rows of these axes; or with
    one value where a mask does."""
    places = [k for k, index in enumerate(indices) if index is not None]
    tensors = torch.broadcast_tensors(*(indices[k] for k in places))
    first, count = places[0], len(places)
    if tensors[0].dtype == torch.bool and values.numel() == 1 and not accumulate:
        mask = tensors[0].reshape(*tensors[0].shape, *[1] * (x.ndim - first - tensors[0].ndim))
        return torch.where(mask, values, x)
    if tensors[0].dtype == torch.bool or places != [*range(first, first + count)]:
        return NotImplemented
    row = _row_of(tensors, x.shape[first:])
    flat = x.flatten(first, first + count - 1)
    values = values.expand(*x.shape[:first], *row.shape, *x.shape[first + count :])
    values = values.reshape(*x.shape[:first], row.numel(), *x.shape[first + count :])
    way = "sum" if accumulate else SET
    return scattered(way, flat, first, row.flatten(), values).reshape(x.shape)


@torch.library.custom_op("tgraph::scattered", mutates_args=())
def _placed(x: Tensor, index: Tensor, rows: Tensor, way: str) -> Tensor:
    """Return what :func:`lib.collect.tvm.scattering.scattered` computes."""
    places = (index if index.ndim == 2 else index[:, None]).expand_as(rows)
    return x.scatter(1, places, rows) if way == SET else x.scatter_reduce(1, places, rows, way)


@_placed.register_fake
def _like(x: Tensor, *_: object) -> Tensor:
    return torch.empty_like(x)


def added(x: Tensor, axis: int, index: Tensor, rows: Tensor, *, alpha: float = 1) -> Tensor:
    """Return a tensor to whose rows others are added."""
    return scattered("sum", x, axis, index, rows * alpha)


def scattered(way: str, x: Tensor, axis: int, index: Tensor, values: Any) -> Any:
    """Return a tensor with values, each at its place on an axis, or all of a row at one."""
    if not isinstance(values, Tensor):
        values = torch.full(index.shape, values, dtype=x.dtype)
    index, values, first = index.long(), values.to(x.dtype), axis % x.ndim
    if index.ndim == x.ndim > 1:
        if index.shape != values.shape:
            return NotImplemented
        index = index.movedim(axis, 0)
        steps = zip(index.stride()[1:], index.shape[1:], strict=True)
        index = index.flatten(1)
        if not any(step for step, length in steps if length > 1):  # it is an expanded tensor
            index = index[:, 0]
        else:
            x, values, first = x.movedim(axis, 0), values.movedim(axis, 0), 0
    if values.movedim(first, 0).shape[1:] != x.movedim(first, 0).shape[1:]:
        return NotImplemented
    shape = math.prod(x.shape[:first]), -1, math.prod(x.shape[first + 1 :])
    result = torch.ops.tgraph.scattered(x.reshape(shape), index, values.reshape(shape), way)
    result = result.reshape(x.shape)
    return result.movedim(0, axis) if index.ndim > 1 else result


def reduced(
    x: Tensor, axis: int, index: Tensor, values: Tensor, way: str, *, include_self: bool = True
) -> Any:
    """Return a tensor with sums, products, means, largest or least of values that have one place;
    and, unless these include what was there before, with that where no value goes."""
    if not x.is_floating_point():
        return NotImplemented
    neutral = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -math.inf, "amin": math.inf}[way]
    before = x if include_self else torch.full(x.shape, neutral, dtype=x.dtype)
    result = scattered("sum" if way == "mean" else way, before, axis, index, values)
    if result is NotImplemented or (include_self and way != "mean"):
        return result
    if way in ("amax", "amin"):
        return torch.where(result == neutral, x, result)
    width = 1 if index.ndim < x.ndim else None  # of whole rows, each counts once
    count, ones = (torch.full(part.shape, 1.0)[..., :width] for part in (x, values))
    count = scattered("sum", count * include_self, axis, index, ones)
    if way == "mean":
        result = result / count.clamp(min=1)
    return torch.where(count > 0, result, x)
