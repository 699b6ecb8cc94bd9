"""Attention that a network writes out, such as all of an ONNX file, as one program."""

from __future__ import annotations

import math

from tvm import relax
from tvm.relax import PyExprMutator
from tvm.relax.expr_functor import mutator

from lib.collect.tvm.attention import attention
from lib.collect.tvm.rewriting import is_one
from lib.collect.tvm.transposed import whole
from lib.collect.tvm.wide import SCALED


def made_by(builder: relax.BlockBuilder, value: relax.Expr, name: str) -> relax.Call | None:
    """Return the call that computes a value, if it is of this operator."""
    call = builder.lookup_binding(value) if isinstance(value, relax.Var) else None
    return call if getattr(getattr(call, "op", None), "name", "") == name else None


@mutator
class AttentionAsOne(PyExprMutator):
    """Puts one program in the place of a product of a softmax of products."""

    def visit_call_(self, call: relax.Call) -> relax.Expr:
        """Return a call, or the attention whose last step it is."""
        call = super().visit_call_(call)
        found = self.attention(call) if getattr(call.op, "name", "") == "relax.matmul" else None
        return call if found is None else self.builder_.normalize(found)

    def attention(self, call: relax.Call) -> relax.Expr | None:
        """Return the attention whose last product a call is; nothing if it is none, or better in
        parts."""
        softmax, rank = made_by(self.builder_, call.args[0], "relax.nn.softmax"), len(call.ty.shape)
        if softmax is None or int(softmax.attrs.axis) % rank != rank - 1:
            return None
        scores, mask = softmax.args[0], None
        if (added := made_by(self.builder_, scores, "relax.add")) is not None:
            scores, mask = added.args
        scores, factors = self.unscaled(scores)
        product = made_by(self.builder_, scores, "relax.matmul")
        if product is None or whole(scores.ty.shape) != whole(softmax.ty.shape):
            return None
        queries, values = product.args[0], call.args[1]
        columns, others = self.unscaled(product.args[1])
        *outer, width, count = whole(columns.ty.shape)
        shapes = [whole(queries.ty.shape), [*outer, count, width], whole(values.ty.shape)]
        if not is_one(*shapes):
            return None
        for scaled in factors + others:
            both = [queries, scaled.args[1]]
            queries = self.builder_.emit(relax.Call(scaled.op, both, scaled.attrs))
        parts = [
            self.shaped(part, [math.prod(shape[:-2]), *shape[-2:]])
            for part, shape in zip((queries, self.turned(columns), values), shapes, strict=True)
        ]
        if mask is not None:
            mask = self.shaped(mask, [*[1] * (4 - len(mask.ty.shape)), *whole(mask.ty.shape)])
        side_by_side = shapes[0][-3] if len(shapes[0]) > 2 else 1
        made = self.builder_.call_te(attention, *parts, mask, 1.0, False, side_by_side)
        return relax.op.reshape(self.builder_.emit(made), whole(call.ty.shape))

    def unscaled(self, value: relax.Expr) -> tuple[relax.Expr, list[relax.Call]]:
        """Return what was multiplied or divided by single numbers, and the calls that did it."""
        for name in SCALED:
            call = made_by(self.builder_, value, name)
            if call is not None and math.prod(whole(call.args[1].ty.shape)) == 1:
                inner, calls = self.unscaled(call.args[0])
                return inner, [*calls, call]
        return value, []

    def turned(self, columns: relax.Expr) -> relax.Expr:
        """Return keys as rows; as they lie, if they were turned before."""
        *outer, width, count = whole(columns.ty.shape)
        inner, axes = columns, [*range(len(columns.ty.shape))]
        reshaped = made_by(self.builder_, columns, "relax.reshape")
        before = columns if reshaped is None else reshaped.args[0]
        call = made_by(self.builder_, before, "relax.permute_dims")
        if call is not None and call.attrs.axes and whole(before.ty.shape)[-2:] == [width, count]:
            inner, axes = call.args[0], whole(call.attrs.axes)
        *axes, last, least = axes
        if (order := [*axes, least, last]) != sorted(order):
            inner = self.builder_.emit(relax.op.permute_dims(inner, order))
        return self.shaped(inner, [*outer, count, width])

    def shaped(self, value: relax.Expr, shape: list[int]) -> relax.Expr:
        """Return a value of another shape, in one step: several would be a copy."""
        while (call := made_by(self.builder_, value, "relax.reshape")) is not None:
            value = call.args[0]
        return self.builder_.emit(relax.op.reshape(value, shape))
