"""From a network to TVM's fused tensor programs, run once beside the original.

A network goes through ``torch.export`` (or is an ONNX file) and TVM's relax, which fuses its
operators into functions. TVM's frontend takes some operators for others, so that nobody gets a
network from here that computes something else than the original on its example inputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import tvm
from tvm import relax
from tvm.ir import IRModule

from lib.collect.tvm.agreement import DIFFERENCE, agree, difference
from lib.collect.tvm.compiler import SCHEDULE_TARGET, host_target
from lib.collect.tvm.networks import Network
from lib.collect.tvm.onnx_files import from_onnx
from lib.collect.tvm.sources import Source, from_torch
from lib.files.errors import UserError

PREPARED = "main_transform_params"  # the function that prepares weights once


@dataclass(frozen=True)
class Imported:
    """A network in TVM.

    Attributes:
        name: the network's.
        module: its fused functions, and ``main``, which calls them; what depends on weights alone
            is taken out of it.
        given: what ``main`` is called with: the example inputs, and the weights as prepared.
        wanted: what the original computes from the example inputs.
        seen: of each function that was run, the arguments of its first call.
    """

    name: str
    module: IRModule
    given: tuple[np.ndarray, ...]
    wanted: tuple[np.ndarray, ...]
    seen: dict[str, tuple[np.ndarray, ...]]

    def arguments(self, functions: Iterable[str]) -> tuple[np.ndarray, ...]:
        """Of the first call of the first of some functions; none if the network runs none."""
        return next((self.seen[one] for one in functions if one in self.seen), ())


def imported(network: Network) -> Imported:
    """A network as fused functions that compute what it computes.

    Raises:
        UserError: it cannot be read, or TVM computes something else; names the operator or layer.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)  # weights and example inputs are the same in every run
    module, inputs = network.build()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = from_torch if isinstance(module, torch.nn.Module) else from_onnx
        source = read(network.name, module, inputs)
        whole = fused(source.module)
        given, found, seen = run(source, whole)
        if not agree(found, source.wanted):
            raise UserError(f"{network.name}: {_what_differs(source, found)}")
    kept = {g: f for g, f in whole.functions.items() if g.name_hint != PREPARED}
    alone = relax.transform.DeadCodeElimination(["main"])(IRModule(kept))
    return Imported(network.name, alone, given, source.wanted, seen)


def fused(module: IRModule) -> IRModule:
    """A relax module as fused functions; what depends on weights alone has its own function."""
    passes = relax.transform
    with SCHEDULE_TARGET:
        return tvm.ir.transform.Sequential(
            [
                passes.DecomposeOpsForInference(),
                passes.CanonicalizeBindings(),
                passes.LiftTransformParams(),
                passes.LegalizeOps(),
                passes.AnnotateTIROpPattern(),
                passes.FuseOps(),
                passes.FuseTIR(),
            ]
        )(module)


def run(source: Source, module: IRModule) -> tuple[tuple, tuple, dict[str, tuple]]:
    """Run a fused network on this machine: ``given``, results and ``seen`` of :class:`Imported`."""
    names = {variable.name_hint for variable in module.functions}
    seen: dict[str, tuple[np.ndarray, ...]] = {}

    def note(_function, name: str, before: bool, _result, *arguments) -> int:
        """Keep what a function is called with, if it is its first call."""
        if before and name in names and name not in seen:
            seen[name] = tuple(np.array(one.numpy()) for one in arguments)
        return 0

    machine = relax.VirtualMachine(tvm.compile(module, host_target()), tvm.cpu(0))
    weights = list(source.weights)
    if PREPARED in names:
        weights = list(machine[PREPARED](weights))
    given = [*map(tvm.runtime.tensor, source.inputs), *weights]
    machine.set_instrument(note)
    found = machine["main"](*given)
    return tuple(one.numpy() for one in given), arrays_of(found), seen


def arrays_of(found) -> tuple[np.ndarray, ...]:
    """The arrays of what a function of TVM returns: a tensor, or several."""
    if isinstance(found, tvm.runtime.Tensor):
        return (found.numpy(),)
    return tuple(array for one in found for array in arrays_of(one))


def _what_differs(source: Source, found: Sequence[np.ndarray]) -> str:
    """Which step of a network is the first that TVM computes otherwise, and how far it is off."""
    steps = source.steps()
    _, ours, _ = run(steps, fused(steps.module))
    places = [*zip(steps.names, ours, steps.wanted, strict=True)]
    places += zip(["its results"] * len(found), found, source.wanted, strict=False)
    for name, one, two in places:
        if (off := difference(one, two)) > DIFFERENCE:
            said = f"off by {100 * off:.2g} %" if off < 10 else "other numbers"
            return f"TVM computes {name} otherwise than {source.original}: {said}"
    return f"TVM gives {len(found)} results, {source.original} {len(source.wanted)}"
