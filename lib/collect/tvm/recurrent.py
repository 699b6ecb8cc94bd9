"""Recurrent layers of ONNX files step by step: products, and operators that TVM reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, helper, numpy_helper

# Of each kind: gates, and by which functions they become numbers unless the layer says others.
KINDS = {
    "LSTM": (4, ("Sigmoid", "Tanh", "Tanh")),
    "GRU": (3, ("Sigmoid", "Tanh")),
    "RNN": (1, ("Tanh",)),
}
READ = {"activations", "direction", "hidden_size", "linear_before_reset"}
BACKWARD = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}


class Nodes:
    """Nodes of a graph, one after the other.

    Args:
        prefix: of the names of what they compute.

    Attributes:
        made: the nodes.
    """

    def __init__(self, prefix: str):
        self.prefix = prefix
        self.made: list[NodeProto] = []

    def __call__(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add a node, and return the name of its result."""
        return self.several(1, operator, *inputs, **attributes)[0]

    def several(self, count: int, operator: str, *inputs: str, **attributes: Any) -> list[str]:
        """Add a node of several results, and return their names."""
        names = [f"{self.prefix}/{len(self.made)}.{k}" for k in range(count)]
        self.made.append(helper.make_node(operator, [*inputs], names, names[0], **attributes))
        return names

    def constant(self, values: Any, kind: type = np.int64) -> str:
        """Return an array."""
        return self("Constant", value=numpy_helper.from_array(np.array(values, kind)))

    def split(self, value: str, sizes: Sequence[int], axis: int) -> list[str]:
        """Return parts along an axis."""
        if len(sizes) == 1:  # a split that TVM cannot read
            return [value]
        return self.several(len(sizes), "Split", value, self.constant(sizes), axis=axis)

    def each(self, value: str, count: int) -> list[str]:
        """Return the parts of a first axis, without it."""
        axis = self.constant([0])
        return [self("Squeeze", part, axis) for part in self.split(value, [1] * count, 0)]

    def stack(self, parts: Sequence[str], axis: int) -> str:
        """Return parts along a new axis."""
        own = self.constant([axis])
        return self("Concat", *(self("Unsqueeze", part, own) for part in parts), axis=axis)


@dataclass
class Cell:
    """What a recurrent layer computes in a step.

    Attributes:
        make: for its nodes.
        size: numbers of its state.
        functions: operators.
        again: weights (size, gates x size) of the state; or two, of which a GRU multiplies what its
            gate has left by the second.
        bias: that is added to the state's products, if there is one.
        peephole: three weights (size,) of an LSTM's cell, or none.
    """

    make: Nodes
    size: int
    functions: Sequence[str]
    again: Sequence[str]
    bias: str
    peephole: Sequence[str]

    def lstm(self, x: str, h: str, c: str) -> tuple[str, str]:
        """Return the next state and cell of an LSTM."""
        make, (gate, new, last) = self.make, self.functions
        sums = make("Add", x, make("MatMul", h, *self.again))
        i, o, f, g = make.split(sums, [self.size] * 4, 1)
        if self.peephole:
            own, out, kept = self.peephole
            i = make("Add", i, make("Mul", own, c))
            f = make("Add", f, make("Mul", kept, c))
        left = make("Mul", make(gate, f), c)
        c = make("Add", left, make("Mul", make(gate, i), make(new, g)))
        if self.peephole:
            o = make("Add", o, make("Mul", out, c))
        return make("Mul", make(gate, o), make(last, c)), c

    def gru(self, x: str, h: str, c: str) -> tuple[str, str]:
        """Return the next state of a GRU."""
        make, (gate, new), size = self.make, self.functions, self.size
        if len(self.again) > 1:
            both, x = make.split(x, [2 * size, size], 1)
            sums = make("Add", both, make("MatMul", h, self.again[0]))
            z, r = make.split(make(gate, sums), [size] * 2, 1)
            product = make("MatMul", make("Mul", r, h), self.again[1])
        else:
            product = make("MatMul", h, *self.again)
            product = make("Add", product, self.bias) if self.bias else product
            (*xs, x), (*hs, own) = (make.split(one, [size] * 3, 1) for one in (x, product))
            z, r = (make(gate, make("Add", *two)) for two in zip(xs, hs, strict=True))
            product = make("Mul", r, own)
        n = make(new, make("Add", x, product))
        return make("Add", n, make("Mul", z, make("Sub", h, n))), c

    def rnn(self, x: str, h: str, c: str) -> tuple[str, str]:
        """Return the next state of a plain recurrent layer."""
        make, (new,) = self.make, self.functions
        return make(new, make("Add", x, make("MatMul", h, *self.again))), c


def unrolled(
    node: NodeProto, shape: Sequence[int], lengths: np.ndarray | None = None
) -> list[NodeProto]:
    """Return nodes that compute what an LSTM, GRU or RNN of ONNX computes.

    Args:
        node: the layer.
        shape: of its first input.
        lengths: of the sequences of a batch, if it is given any.

    Raises:
        ValueError: it has an attribute that is not read, or sequences of several lengths.
    """
    given = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    kind, (steps, batch, _) = node.op_type, shape
    unread = sorted(name for name in given.keys() - READ if given[name])
    if lengths is not None and (lengths != steps).any():
        unread += ["sequence_lens"]
    if unread:
        raise ValueError(f"{', '.join(unread)} of {node.name or node.output[0]}")
    backward = BACKWARD[given.get("direction", b"forward").decode()]
    (gates, usual), size = KINDS[kind], given["hidden_size"]
    functions = [name.decode() for name in given.get("activations", ())] or [*usual] * len(backward)
    make = Nodes(next(filter(None, node.output)))
    x, weights, again, bias, _, hidden, cell, peephole = [*node.input, *[""] * 8][:8]
    zeros = make.constant(np.zeros((batch, size)), np.float32)
    of_each = [
        make.each(one, len(backward)) if one else [none] * len(backward)
        for one, none in (
            *((weights, ""), (again, ""), (bias, ""), (peephole, "")),
            *((hidden, zeros), (cell, zeros)),
        )
    ]
    every, last = [], []
    reset_first = kind == "GRU" and not given.get("linear_before_reset", 0)
    for number, (w, r, b, p, h, c) in enumerate(zip(*of_each, strict=True)):
        sums, own = make("MatMul", x, make("Transpose", w, perm=[1, 0])), ""
        if b:
            first, own = make.split(b, [gates * size] * 2, 0)
            if kind != "GRU" or reset_first:
                first, own = make("Add", first, own), ""
            sums = make("Add", sums, first)
        parts = make.split(r, [2 * size, size], 0) if reset_first else [r]
        r = [make("Transpose", part, perm=[1, 0]) for part in parts]
        p = make.split(p, [size] * 3, 0) if p else []
        own_functions = functions[number * len(usual) :][: len(usual)]
        step = getattr(Cell(make, size, own_functions, r, own, p), kind.lower())
        inputs, outputs = make.each(sums, steps), [""] * steps
        for k in range(steps)[:: -1 if backward[number] else 1]:
            h, c = step(inputs[k], h, c)
            outputs[k] = h
        every.append(outputs)
        last.append((h, c))
    joined = [make("Concat", *parts, axis=1) for parts in zip(*every, strict=True)]
    shape = make.constant([steps, batch, len(backward), size])
    states = (make.stack(one, 0) for one in zip(*last, strict=True))
    every_state = make(
        "Transpose", make("Reshape", make.stack(joined, 0), shape), perm=[0, 2, 1, 3]
    )
    for name, result in zip(node.output, [every_state, *states], strict=False):
        if name:
            make.made.append(helper.make_node("Identity", [result], [name], name))
    return make.made
