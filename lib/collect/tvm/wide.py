"""Channels that no vector divides, filled up.

Vectors run over channels, and of 58 or 100 the last one has a part only. So weights get channels of
zeros, and what is computed keeps them until an operator cannot have more than there are. Groups of
few channels become one: a vector is of one group.
"""

from __future__ import annotations

import math

import numpy as np
from tvm import relax
from tvm.ir import GenericConst, IRModule
from tvm.relax import PyExprMutator
from tvm.relax.expr_functor import mutator

from lib.collect.tvm.rewriting import FEW, MASKED
from lib.collect.tvm.rows import SHARE
from lib.collect.tvm.transposed import convolved_as, filled_up, whole
from lib.files.processor import LANES

CONVOLUTIONS = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")
SCALED = ("relax.multiply", "relax.divide")
POOLED = ("relax.nn.max_pool2d", "relax.nn.adaptive_avg_pool2d", "relax.image.resize2d")
MOST_TOGETHER = 4  # groups of a convolution
FEWEST, WORK = 16, 1 << 16  # products of a sum, and of all, for which copies are worth their time
# Operators that are computed for each channel alone, and what they make of the channels added.
OF_EACH = {
    **{"relax.nn.relu": lambda x: max(x, 0.0), "relax.negative": np.negative, "relax.exp": np.exp},
    **{"relax.tanh": np.tanh, "relax.erf": math.erf, "relax.add": np.add},
    **{"relax.subtract": np.subtract, "relax.multiply": np.multiply, "relax.divide": np.divide},
    **{"relax.maximum": np.maximum, "relax.minimum": np.minimum},
}


def width(channels: int) -> int:
    """Return to how many channels so many are filled up: to vectors of the widest if that adds an
    eighth at most."""
    half = LANES // 2
    if channels % half == 0:
        return channels
    filled = channels + -channels % LANES
    return filled if SHARE * (filled - channels) <= channels else channels + -channels % half


def together(groups: int, outputs: int) -> int:
    """Return how many groups of a convolution, of so many results each, become one of whole
    vectors; 1 if there would be too many zeros."""
    count = LANES // 2 // math.gcd(outputs, LANES // 2)
    return count if count <= MOST_TOGETHER and groups % count == 0 else 1


def _joined(weight: relax.Expr, count: int, outputs: int) -> relax.Expr:
    """Return weights (*window, inputs, groups x outputs), in which each of some neighbouring groups
    has zeros for what the others read."""
    *_, inputs, every = whole(weight.ty.shape)
    own = np.arange(every) // outputs % count == np.arange(count * inputs)[:, None] // inputs
    return relax.op.multiply(relax.op.concat([weight] * count, -2), relax.const(own, "float32"))


@mutator
class WholeVectors(PyExprMutator):
    """Fills up channels.

    A result with more channels than it had is followed by a slice of these, by which it is known.
    """

    def __init__(self, module: IRModule):
        super().__init__(module)
        main = module["main"]
        self.added: dict[relax.Var, float] = {}  # what is in the channels added to a wide result
        self.weights = {*main.params[int(main.attrs["num_input"]) :]}
        for binding in (b for block in main.body.blocks for b in block.bindings):
            if isinstance(binding.value, relax.Call) and all(map(self.fixed, binding.value.args)):
                self.weights.add(binding.var)

    def fixed(self, value: relax.Expr) -> bool:
        """Return whether a value depends on weights alone."""
        return not isinstance(value, relax.Var | relax.Tuple) or value in self.weights

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """Return a call, or what is sliced from it with more channels."""
        fixed = [self.fixed(value) for value in call.args]
        call = super().visit_call_(call)
        name = getattr(call.op, "name", "")
        if all(fixed):
            return call
        if name in CONVOLUTIONS or name == "relax.matmul":
            made = self.product(call, name) if fixed[1] else self.of_two(call, name)
        elif name in OF_EACH:
            made = self.of_each(call, fixed)
        elif name == "relax.nn.softmax":
            made = self.softmax(call)
        elif name in POOLED and str(call.attrs.layout) == "NHWC":
            made = self.pooled(call)
        else:
            made = None
        if made is None:
            return call
        result, added = made
        result, shape = self.builder_.emit(result), whole(call.ty.shape)
        if whole(result.ty.shape)[-1] == shape[-1]:
            return result
        self.added[result] = added
        axis = len(shape) - 1
        return self.builder_.normalize(relax.op.strided_slice(result, [axis], [0], [shape[-1]]))

    def wide(self, value: relax.Expr) -> relax.Var | None:
        """Return the result with more channels that a value is sliced from, if there is one."""
        bound = self.builder_.lookup_binding(value) if isinstance(value, relax.Var) else None
        of = bound.args[0] if isinstance(bound, relax.Call) and bound.args else None
        return of if of in self.added and bound.op.name == "relax.strided_slice" else None

    def product(self, call: relax.Call, name: str) -> tuple[relax.Expr, float] | None:
        """Return a product or convolution by filled-up weights; nothing if that takes longer."""
        x, weight = call.args
        if name == "relax.matmul" and len(weight.ty.shape) != 2:
            return None
        *window, inputs, outputs = whole(weight.ty.shape)
        of, groups = self.wide(x), int(call.attrs.groups) if name in CONVOLUTIONS else 1
        x = x if of is None else of
        channels, filled = whole(x.ty.shape)[-1], width(outputs)
        if groups > 1 and (inputs > 1 or groups != outputs):
            count = together(groups, outputs // groups)
            if count == 1:
                return None
            weight = self.builder_.emit(_joined(weight, count, outputs // groups))
            return convolved_as(call, call.args[0], weight, groups=groups // count), 0.0
        if groups > 1:
            if of is None:
                return None
            more, groups = {-1: channels - outputs}, channels
        else:
            summed = math.prod(window) * inputs
            work = summed * math.prod(whole(call.ty.shape))
            if of is None and (filled == outputs or summed < FEWEST or work < WORK):
                return None
            more = {-2: channels - inputs, -1: filled - outputs}
        weight = self.builder_.emit(filled_up(weight, more))
        if name == "relax.matmul":
            return relax.op.matmul(x, weight), 0.0
        return convolved_as(call, x, weight, groups=groups), 0.0

    def of_two(self, call: relax.Call, name: str) -> tuple[relax.Expr, float] | None:
        """Return products of two results, one of each in a batch, of which the second gets columns
        of zeros, and rows where the first has more columns; nothing if it has too few rows."""
        x, y = call.args
        if name != "relax.matmul" or len(x.ty.shape) != len(y.ty.shape) or len(x.ty.shape) < 2:
            return None
        of, columns = self.wide(x), whole(y.ty.shape)[-1]
        more = {-1: width(columns) - columns}
        if min(whole(x.ty.shape)[-2:]) < LANES // 2 or (of is None and not more[-1]):
            return None
        if of is not None:
            more[-2] = whole(of.ty.shape)[-1] - whole(x.ty.shape)[-1]
        return relax.op.matmul(x if of is None else of, filled_up(y, more)), 0.0

    def softmax(self, call: relax.Call) -> tuple[relax.Expr, float] | None:
        """Return a softmax of what has more columns, of which it makes next to nothing; nothing if
        there are few vectors, of which a part of one is no matter."""
        of, shape = self.wide(call.args[0]), whole(call.ty.shape)
        last = int(call.attrs.axis) % len(shape) == len(shape) - 1
        if of is None or not last or shape[-1] <= FEW * LANES:
            return None
        mask = np.zeros(whole(of.ty.shape)[-1], np.float32)
        mask[shape[-1] :] = MASKED
        return relax.op.nn.softmax(relax.op.add(of, relax.const(mask)), -1), 0.0

    def of_each(self, call: relax.Call, fixed: list[bool]) -> tuple[relax.Expr, float] | None:
        """Return an operator on values with more channels; nothing if there are none, or if what it
        makes of these is no number."""
        channels, wides = whole(call.ty.shape)[-1:], [*map(self.wide, call.args)]
        widths = {whole(of.ty.shape)[-1] for of in wides if of is not None}
        if len(widths) != 1:
            return None
        zeros = not any(self.added[of] for of in wides if of is not None)
        values: list[relax.Expr] = []
        added: list[float] = []
        for value, is_weight, of in zip(call.args, fixed, wides, strict=True):
            shape = whole(value.ty.shape)
            if of is not None:
                values.append(of)
                added.append(self.added[of])
            elif isinstance(value, GenericConst) and not shape:
                values.append(value)
                added.append(float(value.value.numpy()))
            elif is_weight and shape[-1:] == channels:
                more = {-1: max(widths) - channels[0]}
                values.append(self.builder_.emit(filled_up(value, more)))
                added.append(0.0)
            elif is_weight and math.prod(shape) == 1 and zeros and call.op.name in SCALED:
                values.append(value)  # of an ONNX file: any number leaves zeros as they are
                added.append(1.0)
            else:
                return None
        with np.errstate(all="ignore"):
            number = float(np.float32(OF_EACH[call.op.name](*added)))
        return (relax.Call(call.op, values, call.attrs), number) if np.isfinite(number) else None

    def pooled(self, call: relax.Call) -> tuple[relax.Expr, float] | None:
        """Return the largest or means over pixels of a value with more channels."""
        of = self.wide(call.args[0])
        if of is None:
            return None
        return relax.Call(call.op, [of, *call.args[1:]], call.attrs), self.added[of]
