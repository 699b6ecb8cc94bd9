"""Changes that make a network fast on a CPU: layouts, cheap functions, packed weights.

Convolutions become channels-last, so that vectors run over channels and no transposition is
needed between them. Exponentials, error functions, tangents and softmax become polynomials,
which vectors can compute. Each schedule lays out the weights that it reads as it reads them; they
are packed once, before the network's first run.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import tvm
from tvm import relax, topi
from tvm.ir import IRModule
from tvm.relax import PyExprMutator
from tvm.relax.expr_functor import mutator

from lib.collect.tvm.compiler import WEIGHTS, alone, outputs_of
from lib.collect.tvm.rows import in_tiles, whole_tiles
from lib.collect.tvm.transposed import transposed, whole
from lib.collect.tvm.volumes import by_images
from lib.collect.tvm.wide import OF_EACH, WholeVectors
from lib.collect.tvm.written_out import AttentionAsOne, made_by

# Convolutions become channels-last. TVM's change of layouts passes what comes after one in that
# layout, so that it must know every operator that has one.
LAYOUTS = {
    "relax.nn.conv2d": ["NHWC", "HWIO"],
    "relax.nn.conv2d_transpose": ["NHWC", "HWIO"],
    "relax.nn.conv1d": ["NWC", "WIO"],
    "relax.nn.conv1d_transpose": ["NWC", "WIO"],
    "relax.nn.conv3d": ["NDHWC", "DHWIO"],
    "relax.nn.conv3d_transpose": ["NDHWC", "DHWIO"],
}
RESIZED = "relax.image.resize2d"
PASSED = {"relax.permute_dims", "relax.strided_slice", *OF_EACH}  # between it and a change of axes
UNDONE = ("relax.reshape", "relax.permute_dims")  # by another one
OPAQUE = 8  # a pattern, by which TVM knows that a program is joined with no other
MOST_SLICES = 4  # that a split becomes: such as the gates of an LSTM
MOST_AT_ONCE = 64  # that are joined or taken apart


def _number(like: relax.Expr, value: float) -> relax.Expr:
    return relax.const(value, str(like.ty.dtype))


def _clip(call: relax.Call) -> relax.Expr:
    """Return a clip in two steps: TVM's change of layouts stops at one, and transposes there."""
    x, least, most = call.args
    below = relax.op.maximum(x, _number(x, float(least.value)))
    return relax.op.minimum(below, _number(x, float(most.value)))


def _sigmoid(call: relax.Call) -> relax.Expr:
    x = call.args[0]
    rest = relax.op.exp(relax.op.negative(x))
    return relax.op.divide(_number(x, 1.0), relax.op.add(_number(x, 1.0), rest))


def _silu(call: relax.Call) -> relax.Expr:
    return relax.op.multiply(call.args[0], _sigmoid(call))


def _gelu(call: relax.Call) -> relax.Expr:
    x = call.args[0]
    inner = relax.op.erf(relax.op.multiply(x, _number(x, 0.5**0.5)))
    half = relax.op.multiply(x, _number(x, 0.5))
    return relax.op.multiply(half, relax.op.add(inner, _number(x, 1.0)))


def _leaky_relu(call: relax.Call) -> relax.Expr:
    """Return a leaky rectifier in operators of which TVM's change of layouts knows each."""
    x, slope = call.args[0], float(call.attrs.alpha)
    choice = relax.op.maximum if slope <= 1 else relax.op.minimum
    return choice(x, relax.op.multiply(x, _number(x, slope)))


def _broadcast(call: relax.Call) -> relax.Expr:
    """Return a tensor that has the shape already as it is: TVM would copy it in attention."""
    x, shape = call.args
    return x if [*map(str, x.ty.shape)] == [*map(str, shape)] else call


def _squeeze(call: relax.Call) -> relax.Expr:
    """Return a squeeze whose axes count from the front and have one place each: TVM's change of
    layouts fails at others, and PyTorch leaves longer ones."""
    x, axes = call.args[0], call.attrs.axis
    if not axes:
        return call
    short = [axis for axis in map(int, axes) if x.ty.shape[axis] == 1]
    return relax.op.squeeze(x, [axis % len(x.ty.shape) for axis in short]) if short else x


def _split(call: relax.Call) -> relax.Expr:
    """Return slices, each of which can join what reads it, if there are few.

    Of a recurrent network's many steps, each would become a task of its own.
    """
    x, axis = call.args[0], int(call.attrs.axis) % len(call.args[0].ty.shape)
    if len(call.ty.fields) > MOST_SLICES:
        return call
    sizes = [int(part.shape[axis]) for part in call.ty.fields]
    ends = itertools.accumulate(sizes)
    return relax.Tuple(
        [
            relax.op.strided_slice(x, [axis], [end - size], [end])
            for size, end in zip(sizes, ends, strict=True)
        ]
    )


def _permute(call: relax.Call) -> relax.Expr:
    """Return a tensor as it is if its axes stay where they are, else with axes from the front, as
    TVM's change of layouts wants them."""
    axes = [int(axis) % len(call.ty.shape) for axis in call.attrs.axes or ()]
    if axes and axes == sorted(axes):
        return call.args[0]
    return relax.op.permute_dims(call.args[0], axes) if axes else call


def _of_resized(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Return a change of axes; after an image is resized, channels last, as a program of its own:
    within one, each number would be resized for itself, and not all channels of a pixel at once."""
    result = _permute(call)
    value: relax.Expr | None = result
    while isinstance(value, relax.Call) and value.op.name in PASSED:
        read = (x for x in value.args if isinstance(x, relax.Var))
        value = next((made for x in read if (made := builder.lookup_binding(x)) is not None), None)
    if getattr(getattr(value, "op", None), "name", "") != RESIZED:
        return result
    (x,), axes = result.args, [int(axis) for axis in result.attrs.axes]
    return builder.call_te(topi.transpose, x, axes, primfunc_attrs={"op_pattern": OPAQUE})


def _some_joined(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Return many tensors side by side, some at a time: of a recurrent network's hundreds of steps
    at once, LLVM's time grows with the square."""
    tensors, axis = getattr(call.args[0], "fields", ()), int(call.attrs.axis)
    if len(tensors) <= MOST_AT_ONCE:
        return call
    how = {"op_pattern": OPAQUE}
    while len(tensors) > 1:
        tensors = [
            builder.emit_te(topi.concatenate, list(some), axis, primfunc_attrs=how)
            for some in _groups(tensors)
        ]
    return tensors[0]


def _groups(things: Sequence[Any]) -> list[Sequence[Any]]:
    """Return neighbours, as many as are joined or taken apart at once."""
    return [things[k : k + MOST_AT_ONCE] for k in range(0, len(things), MOST_AT_ONCE)]


def _some_parts(builder: relax.BlockBuilder, call: relax.Call) -> relax.Expr:
    """Return many parts of a tensor, some at a time, as :func:`_some_joined` joins them."""
    x, axis = call.args[0], int(call.attrs.axis)
    sizes = [int(part.shape[axis]) for part in call.ty.fields]
    if len(sizes) <= MOST_AT_ONCE:
        return call
    some = _groups(sizes)
    return relax.Tuple(
        [
            part
            for group, of in zip(_parts(builder, x, map(sum, some), axis), some, strict=True)
            for part in _parts(builder, group, of, axis)
        ]
    )


def _parts(
    builder: relax.BlockBuilder, x: relax.Expr, sizes: Iterable[int], axis: int
) -> list[relax.Expr]:
    ends = list(itertools.accumulate(sizes))
    if len(ends) == 1:
        return [x]
    parts = builder.emit(relax.op.split(x, ends[:-1], axis))
    return [builder.emit(relax.TupleGetItem(parts, k)) for k in range(len(ends))]


# Operators in parts of which each can be fused, take any layout, and become polynomials.
IN_PARTS: dict[str, Callable[[relax.Call], relax.Expr]] = {
    "relax.clip": _clip,
    "relax.sigmoid": _sigmoid,
    "relax.nn.silu": _silu,
    "relax.nn.gelu": _gelu,
    "relax.nn.leakyrelu": _leaky_relu,
    "relax.broadcast_to": _broadcast,
    "relax.split": _split,
    "relax.squeeze": _squeeze,
    "relax.permute_dims": _permute,
}
# Convolutions, channels last, as programs of their own.
PROGRAMS: dict[str, Callable[[relax.BlockBuilder, relax.Call], relax.Expr]] = {
    "relax.concat": _some_joined,
    "relax.matmul": whole_tiles,
    "relax.nn.conv1d": whole_tiles,
    "relax.nn.conv1d_transpose": transposed,
    "relax.nn.conv2d": in_tiles,
    "relax.nn.conv2d_transpose": transposed,
    "relax.nn.conv3d": by_images,
    "relax.nn.conv3d_transpose": transposed,
    "relax.permute_dims": _of_resized,
    "relax.split": _some_parts,
}


@mutator
class _Parts(PyExprMutator):
    """Takes operators into parts."""

    def __init__(self, module: IRModule, channels_are_last: bool = False):
        super().__init__(module)
        self.programs = PROGRAMS if channels_are_last else {}

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """Return a call, or the calls of its parts."""
        call = super().visit_call_(call)
        name = getattr(call.op, "name", "")
        if name in UNDONE and (before := self.undone(call, name)) is not None:
            return before
        if program := self.programs.get(name):
            return self.builder_.normalize(program(self.builder_, call))
        parts = IN_PARTS.get(name)
        return self.builder_.normalize(parts(call)) if parts else call

    def undone(self, call: relax.Call, name: str) -> relax.Expr | None:
        """Return what was there before the last step, which a reshape or change of axes undoes."""
        before = made_by(self.builder_, call.args[0], name)
        if before is None:
            return None
        value = before.args[0]
        if name == "relax.reshape":
            return value if whole(value.ty.shape) == whole(call.ty.shape) else None
        axes, last = before.attrs.axes, call.attrs.axes
        if not axes or not last:
            return None
        back = [int(axes[int(axis)]) % len(axes) for axis in last]
        return value if back == [*range(len(axes))] else None


def main_by(mutator: Callable[[IRModule], PyExprMutator]) -> tvm.transform.Pass:
    """Return a pass that changes the main function of a network."""

    def changed(module: IRModule, _context: tvm.transform.PassContext) -> IRModule:
        """Return the module, changed."""
        made = mutator(module)
        made.builder_.update_func(module.get_global_var("main"), made.visit_expr(module["main"]))
        return made.builder_.get()

    return tvm.transform.module_pass(changed, opt_level=0)


@tvm.transform.module_pass(opt_level=0, name="ChannelsLast")
class ChannelsLast:
    """Layouts of convolutions, if there are any: TVM's time grows with the square of the calls."""

    def transform_module(self, module: IRModule, _context: tvm.transform.PassContext) -> IRModule:
        """Return the module, changed."""
        bindings = (step for block in module["main"].body.blocks for step in block.bindings)
        operators = {getattr(getattr(step.value, "op", None), "name", "") for step in bindings}
        if operators.isdisjoint(LAYOUTS):
            return module
        return relax.transform.ConvertLayout(LAYOUTS)(module)


def operator_passes() -> list[tvm.transform.Pass]:
    """Return the passes that change operators; inputs and results stay as they are."""
    change = relax.transform
    return [
        main_by(AttentionAsOne),
        main_by(_Parts),
        change.CanonicalizeBindings(),
        ChannelsLast(),
        main_by(WholeVectors),
        main_by(partial(_Parts, channels_are_last=True)),
        change.Normalize(),
        change.CanonicalizeBindings(),
        change.FastMathTransform(),
        change.EliminateCommonSubexpr(),
        change.DeadCodeElimination(),  # what nobody reads counts as a reader of what it reads
    ]


def weights_of(task: IRModule) -> list[int]:
    """Return the arguments of a task that are weights; none of a task that is not deployed."""
    return [int(k) for k in task["main"].attrs.get(WEIGHTS, ())]


@dataclass(frozen=True)
class Packed:
    """A scheduled program whose weights are packed beforehand.

    Attributes:
        program: computes the task.
        pack: packs weights; ``None`` if the schedule leaves them as they are.
        reads: arguments of the task that ``pack`` is given.
        writes: arguments of ``program`` that ``pack`` writes, which come after those.
    """

    program: IRModule
    pack: IRModule | None
    reads: tuple[int, ...]
    writes: tuple[int, ...]


def packed(scheduled: IRModule) -> Packed:
    """Return a scheduled task, and apart from it what its schedule does to weights."""
    inputs, network = _calling(scheduled)
    network = relax.transform.SplitLayoutRewritePreproc()(network)
    values = {b.var: b.value for b in network["main"].body.blocks[0].bindings}
    calls = [variable for variable, value in values.items() if isinstance(value, relax.Call)]
    if len(calls) == 1:
        return Packed(scheduled, None, (), ())
    (packing, packs), program = values[calls[0]].args[:2], values[calls[1]]
    written = {}  # of the packed weights, one or a tuple of several: which argument each is
    for place, argument in enumerate(program.args[1]):
        value = values.get(argument)
        if argument.same_as(calls[0]) or isinstance(value, relax.TupleGetItem):
            written[getattr(value, "index", 0)] = place
    places = {variable: place for place, variable in enumerate(inputs)}
    return Packed(
        alone(network[program.args[0]]),
        alone(network[packing]),
        tuple(places[argument] for argument in packs),
        tuple(written[number] for number in sorted(written)),
    )


def _calling(scheduled: IRModule) -> tuple[list[relax.Var], IRModule]:
    """Return a network that calls a task and nothing else, and its inputs."""
    function = scheduled["main"]
    written = outputs_of(scheduled)
    types = [relax.TensorType([int(x) for x in p.shape], str(p.dtype)) for p in function.params]
    inputs = [relax.Var(f"x{k}", kind) for k, kind in enumerate(types) if k not in written]
    results = [types[k] for k in written]
    builder = relax.BlockBuilder()
    task = builder.add_func(function.without_attr("global_symbol"), "task")
    with builder.function("main", inputs, attrs={"num_input": 0}):
        with builder.dataflow():
            kind = results if len(results) > 1 else results[0]
            call = builder.emit_output(relax.op.call_tir(task, relax.Tuple(inputs), kind))
        builder.emit_func_output(call)
    return inputs, builder.get()
