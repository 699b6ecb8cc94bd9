"""Batches move to another device as a whole, whatever tensors they are made of."""

from __future__ import annotations

from dataclasses import fields
from typing import TypeVar

import torch
from torch import Tensor

Moved = TypeVar("Moved", bound="OnDevice")


class OnDevice:
    """A dataclass of tensors, numbers, and others like it, which moves as a whole."""

    def to(self: Moved, device: torch.device | str) -> Moved:
        """The same on another device."""
        return type(self)(*(_moved(getattr(self, field.name), device) for field in fields(self)))


def _moved(value: object, device: torch.device | str) -> object:
    if isinstance(value, Tensor):
        return value.to(device, non_blocking=True)
    if isinstance(value, OnDevice):
        return value.to(device)
    return [_moved(element, device) for element in value] if isinstance(value, list) else value
