"""A device that a test pretends to have: it computes on the CPU, and checks devices as a GPU does.

Its tensors say ``device(type="other")`` and hold real numbers, so that a training runs on it whole,
to the same bits as torch alone on the CPU. An operator that gets tensors of two devices raises a
``RuntimeError``, and so does ``numpy()``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import (
    _DummyBackendModule,
    _setup_privateuseone_for_python_backend,
)

NAME = "other"
aten = torch.ops.aten
COPIES = {aten._to_copy.default, aten.copy_.default}
# A GPU's queue of kernels runs empty at these: the CPU waits for a number, or for a size.
WAITING = {
    *(aten._local_scalar_dense.default, aten.nonzero.default, aten.masked_select.default),
    *(aten._unique2.default, aten.unique_dim.default, aten.repeat_interleave.Tensor),
}


class _Backend(_DummyBackendModule):
    """What torch asks of a kind of devices. Random numbers are of the CPU's generator."""

    def get_rng_state(self, device: Any) -> Tensor:
        return torch.empty(0)

    def set_rng_state(self, state: Tensor, device: Any) -> None:
        pass

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]


_setup_privateuseone_for_python_backend(NAME, _Backend())
OTHER, CPU = torch.device(NAME, 0), torch.device("cpu")


class OtherTensor(Tensor):
    """A tensor of the other device; ``held`` is what it holds, on the CPU."""

    held: Tensor

    @staticmethod
    def __new__(cls, held: Tensor) -> OtherTensor:
        like = {"strides": held.stride(), "storage_offset": held.storage_offset()}
        made = Tensor._make_wrapper_subclass(
            cls, held.shape, **like, dtype=held.dtype, device=OTHER
        )
        made.held = held
        return made

    def tolist(self) -> Any:
        """Read all numbers; torch's own way takes no other class."""
        return self.cpu().tolist()

    @classmethod
    def __torch_dispatch__(cls, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        with OtherDevice():
            return op(*args, **kwargs or {})


class OtherDevice(TorchDispatchMode):
    """While it is entered, there is the other device.

    It is stricter than a GPU in one point: an index from the CPU, which a GPU waits for and copies,
    is a fault as well.

    Attributes:
        waits: operators that a GPU would have been waited for at.
    """

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[str] = []

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if torch.is_inference_mode_enabled():  # where operators made of others come whole
            with self:
                found = op.decompose(*args, **kwargs)
            if found is not NotImplemented:
                return found
        tensors: list[Tensor] = []
        _changed((args, kwargs), Tensor, tensors.append)
        others = {id(x.held): x for x in tensors if isinstance(x, OtherTensor)}
        if others and op not in COPIES:
            single = torch.Tag.pointwise in op.tags  # which takes single numbers from the CPU
            for x in tensors:
                if not isinstance(x, OtherTensor) and not (single and x.ndim == 0):
                    raise RuntimeError(f"{op}: {tuple(x.shape)} on {x.device}, others on {OTHER}")
        goes_there = bool(others)
        if op is aten.copy_.default:
            goes_there = isinstance(args[0], OtherTensor)
        elif kwargs.get("device") is not None:
            goes_there, kwargs["device"] = torch.device(kwargs["device"]).type == NAME, CPU
        waits = op in WAITING and kwargs.get("output_size") is None
        masks = op is aten.index.Tensor and any(x.dtype == torch.bool for x in tensors[1:])
        if others and (waits or masks or (op in COPIES and not goes_there)):
            self.waits.append(str(op))
        plain_args, plain_kwargs = _changed((args, kwargs), OtherTensor, lambda x: x.held)
        with torch.inference_mode(False), torch.no_grad():
            found = op(*plain_args, **plain_kwargs)
            if not goes_there or op is aten._local_scalar_dense.default:
                return found
            return _changed(found, Tensor, lambda x: _there(x, others))


def _changed(found: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """Change what is of a kind in lists and dicts; torch's pytree takes five times as long."""
    if isinstance(found, kind):
        return change(found)
    if isinstance(found, list | tuple):
        return type(found)([_changed(each, kind, change) for each in found])
    if isinstance(found, dict):
        return {name: _changed(each, kind, change) for name, each in found.items()}
    return found


def _there(held: Tensor, others: dict[int, OtherTensor]) -> OtherTensor:
    """Return the tensor that holds this one: an argument, changed in place, or a new one."""
    return others[id(held)] if id(held) in others else OtherTensor(held)
