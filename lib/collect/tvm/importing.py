"""From a network to TVM's fused tensor programs, run once and compared with the original.

A network goes through ``torch.export`` (or is an ONNX file) and TVM's relax, which fuses its
operators into functions. TVM's frontend takes some operators for others, so that nobody gets a
network from here that computes something else than the original on its example inputs.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import torch
import tvm
from torch.export import ExportedProgram
from tvm import relax
from tvm.ir import IRModule

from lib.collect.tvm.agreement import DIFFERENCE, agree, difference
from lib.collect.tvm.compiler import SCHEDULE_TARGET, host_target, in_order
from lib.collect.tvm.deployment import operator_passes
from lib.collect.tvm.networks import Network
from lib.collect.tvm.onnx_files import from_onnx
from lib.collect.tvm.reasons import ADVICE, words_of
from lib.collect.tvm.sources import Source, from_torch
from lib.files.errors import UserError

INDICES = ("bool", "int8", "uint8", "int32", "int64")  # types of indices and masks
PREPARED = "main_transform_params"  # the function that prepares weights once


@dataclass(frozen=True)
class Imported:
    """A network in TVM.

    Attributes:
        name: the network's.
        module: its fused functions, and ``main``, which calls them; what depends on weights alone
            is taken out of it.
        values: what ``main`` is called with: the example inputs, and the weights as prepared.
        expected: what the original computes from the example inputs.
        seen: of each function that was run, the arguments of its first call.
        built: the original, and its example inputs as it takes them.
    """

    name: str
    module: IRModule
    values: tuple[np.ndarray, ...]
    expected: tuple[np.ndarray, ...]
    seen: dict[str, tuple[np.ndarray, ...]]
    built: tuple[Any, tuple]

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """The example inputs."""
        return self.values[: inputs_of(self.module)]

    @property
    def named_inputs(self) -> dict[str, np.ndarray]:
        """The example inputs by the names that the original has for them."""
        names = (parameter.name for parameter in self.module["main"].params)
        return dict(zip(names, self.inputs, strict=False))  # weights have names as well

    @property
    def footprint(self) -> int:
        """Bytes of its weights as prepared."""
        return sum(weight.nbytes for weight in self.values[inputs_of(self.module) :])

    def arguments(self, functions: Iterable[str]) -> tuple[np.ndarray, ...]:
        """Return the arguments of the first of some functions that runs; none if none does."""
        return next((self.seen[name] for name in functions if name in self.seen), ())


def imported(network: Network, runs: bool = True) -> Imported:
    """Return a network as fused functions that compute what it computes.

    They are as it is deployed, see :mod:`lib.collect.tvm.deployment`. It is compiled and run once
    unless ``runs`` is false: then nothing checks what it computes, and there are no values.

    Raises:
        UserError: it cannot be read, or TVM computes something else; names the operator or layer.
    """
    torch.set_num_threads(1)
    torch.manual_seed(0)  # weights and example inputs are the same in every run
    module, inputs = network.build()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if isinstance(module, onnx.ModelProto):
            source = from_onnx(network.name, module, inputs)
        else:
            source = from_torch(network.name, module, inputs)
            if isinstance(module, ExportedProgram):  # which reading it has changed
                module, _ = network.build()
        check_types(network.name, source.module)
        try:
            whole = fused(source.module)
            values, results, seen = run(source, whole) if runs else ((), source.expected, {})
        except Exception as error:  # of TVM, whatever its kind
            reason = f"{_first_that_fails(source)}: {words_of(error)}"
            raise UserError(
                f"{network.name}: TVM cannot compile or run {reason}; {ADVICE}"
            ) from error
        if not agree(results, source.expected):
            raise UserError(f"{network.name}: {_what_differs(source, results)}")
    functions = {g: f for g, f in whole.functions.items() if g.name_hint != PREPARED}
    alone = relax.transform.DeadCodeElimination(["main"])(IRModule(functions))
    return Imported(network.name, alone, values, source.expected, seen, (module, inputs))


def check_types(name: str, module: IRModule) -> None:
    """Check that a network computes in float32, apart from indices, masks and single numbers.

    Raises:
        UserError: it has another tensor; names its type and shape, and the operator.
    """
    bindings = [binding for block in module["main"].body.blocks for binding in block.bindings]
    for binding in bindings:
        operator = getattr(getattr(binding.value, "op", None), "name", "").removeprefix("relax.")
        product = operator == "matmul" or operator.startswith("nn.conv")
        for value in (binding.var, *(binding.value.args if product else ())):
            for tensor in getattr(value.ty, "fields", [value.ty]):  # a tuple has several
                if not isinstance(tensor, relax.TensorType):
                    continue
                sizes = tensor.shape.values if isinstance(tensor.shape, relax.ShapeExpr) else ()
                shape = [str(getattr(size, "value", size)) for size in sizes]
                kind = str(tensor.dtype)
                good = kind == "float32" or (kind in INDICES and not product)
                if not good and {*shape} - {"1"}:
                    found = f"{operator} has a tensor of {kind}, {' x '.join(shape)}"
                    raise UserError(f"{name}: {found}: programs are of float32; add .float()")


def fused(module: IRModule) -> IRModule:
    """Return a module as fused functions; what depends on weights alone is its own function."""
    passes = relax.transform
    with SCHEDULE_TARGET:
        return tvm.ir.transform.Sequential(
            [
                passes.DecomposeOpsForInference(),
                passes.CanonicalizeBindings(),
                *operator_passes(),
                passes.LiftTransformParams(),
                passes.LegalizeOps(),
                passes.AnnotateTIROpPattern(),
                passes.FuseOps(),
                passes.FuseTIR(),
                passes.RewriteDataflowReshape(),
                passes.AttachAttrLayoutFreeBuffers(),
            ]
        )(module)


def _first_that_fails(source: Source) -> str:
    """Return the operator with which a network, computed up to there, no longer works in TVM."""
    main = source.module["main"]
    bindings = [binding for block in main.body.blocks for binding in block.bindings]

    def fails(count: int) -> bool:
        """Say whether the network of the first bindings alone fails."""
        last = bindings[count - 1].var
        result = relax.Var("result", last.ty)
        block = relax.DataflowBlock([*bindings[:count], relax.VarBinding(result, last)])
        body = relax.SeqExpr([block], result)
        function = relax.Function(main.params, body, last.ty, attrs=main.attrs)
        functions = {**source.module.functions, source.module.get_global_var("main"): function}
        try:
            run(source, fused(IRModule(functions)))
        except Exception:  # of TVM, whatever its kind
            return True
        return False

    first = bisect_left(range(1, len(bindings)), True, key=fails)
    operator = getattr(bindings[first].value, "op", None)
    return getattr(operator, "name", "its results").removeprefix("relax.")


def inputs_of(module: IRModule) -> int:
    """Return the number of inputs of a network's main function; its other arguments are weights."""
    return int(module["main"].attrs["num_input"])


def run(source: Source, module: IRModule) -> tuple[tuple, tuple, dict[str, tuple]]:
    """Run a fused network here: ``values`` and ``seen`` of :class:`Imported`, results between."""
    names = {variable.name_hint for variable in module.functions}
    seen: dict[str, tuple[np.ndarray, ...]] = {}

    def note(_function, name: str, before: bool, _result, *arguments) -> int:
        """Keep what a function is called with, if it is its first call."""
        if before and name in names and name not in seen:
            seen[name] = tuple(np.array(argument.numpy()) for argument in arguments)
        return 0

    machine = relax.VirtualMachine(tvm.compile(in_order(module), host_target()), tvm.cpu(0))
    weights = list(source.weights)
    if PREPARED in names:
        weights = list(machine[PREPARED](weights))
    values = [*map(tvm.runtime.tensor, source.inputs), *weights]
    machine.set_instrument(note)
    results = machine["main"](*values)
    return tuple(tensor.numpy() for tensor in values), arrays_of(results), seen


def arrays_of(result) -> tuple[np.ndarray, ...]:
    """Return the arrays of what a function of TVM returns: a tensor, or several."""
    if isinstance(result, tvm.runtime.Tensor):
        return (np.from_dlpack(result),)
    return tuple(array for part in result for array in arrays_of(part))


def _what_differs(source: Source, results: Sequence[np.ndarray]) -> str:
    """Return the first step that TVM computes otherwise, and how far it is off, in words."""
    steps = source.steps()
    _, ours, _ = run(steps, fused(steps.module))
    places = [*zip(steps.names, ours, steps.expected, strict=True)]
    places += zip(["its results"] * len(results), results, source.expected, strict=False)
    for name, computed, expected in places:
        if (off := difference(computed, expected)) > DIFFERENCE:
            deviation = f"off by {100 * off:.2g} %" if off < 10 else "other numbers"
            return f"TVM computes {name} otherwise than {source.original}: {deviation}"
    return f"TVM gives {len(results)} results, {source.original} {len(source.expected)}"
