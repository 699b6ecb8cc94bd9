"""Reads and writes of a statement of a scheduled module, loop by loop.

An index is a sum over loops, nearly always. So each index is worked out at the first iteration of
all loops, and at the last of each loop with the other loops at their first: what that moves the
index by is the loop's part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from lib.collect.tvm.compiler import REDUCES
from lib.programs.tensorir.accesses import DIMENSIONS, DOMAINS, Access, Statement

BINARY = {
    **{"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "FloorDiv": np.floor_divide},
    **{"FloorMod": np.mod, "Div": np.floor_divide, "Mod": np.mod},
    **{"Min": np.minimum, "Max": np.maximum},
}
SIDES = {"And": ("a", "b"), "Or": ("a", "b"), "Not": ("a",)}  # of a condition
COMPARED = ("LT", "LE", "GT", "GE", "EQ", "NE")
CONDITIONAL = "prim.if_then_else"
CHILDREN = ("a", "b", "value", "true_value", "false_value")
Loop = tuple[int, int, int, int]  # variable, iterations, kind, steps that may be unrolled
Store = tuple[list[Loop], Any, Any, int]  # loops, block, statement, conditions around it


def statement_of(
    loops: Sequence[Loop], realize: Any, store: Any, around: int, shared: Mapping[int, int]
) -> Statement:
    """Return a store's reads and writes, and the loops and conditions around it.

    Args:
        loops: around it, those that the tree has, outermost first.
        realize: of the block that it is in.
        store: itself.
        around: conditions around it.
        shared: of buffers that are no arguments: how many loops are around all that use them.
    """
    _, extent, kind, unroll = zip(*loops, strict=True) if loops else ((), (), (), ())
    points = _Points(loops)
    domains, reduces = points.enter(realize)
    points.walk(store.value)
    if type(realize.predicate).__name__ != "IntImm":
        points.condition(realize.predicate)
    used = {hash(store.buffer): (store.buffer, store.indices)}
    for load in points.loads:
        used.setdefault(hash(load.source), (load.source, load.indices))
    accesses = [points.access(*element, shared.get(key, -1)) for key, element in used.items()]
    sizes = [(*domain, *[1] * DOMAINS)[:DOMAINS] for domain in domains]
    return Statement(
        extent=np.array(extent, np.int64),
        kind=np.array(kind, np.int64),
        reduces=reduces,
        unroll=max(unroll, default=0),
        accesses=accesses,
        domains=np.concatenate(sizes),
        needed=float(np.prod([*domains[0], *domains[1]], dtype=np.float64)),
        conditions=around + points.conditions,
        conditional=points.conditional,
    )


class _Points:
    """Whole numbers at 1 + l points: all loops at their first iteration, each loop at its last.

    Attributes:
        loads, conditions, conditional: of the values that were looked through: what is loaded, how
            many conditions there are, and (l,) whether a condition depends on a loop.
    """

    def __init__(self, loops: Sequence[Loop]):
        count = len(loops)
        self.first = np.zeros(1 + count, np.int64)
        rows = np.zeros((count, 1 + count), np.int64)
        rows[np.arange(count), 1 + np.arange(count)] = [loop[1] - 1 for loop in loops]
        self.values = {loop[0]: row for loop, row in zip(loops, rows, strict=True)}
        self.loads: list[Any] = []
        self.conditions, self.conditional = 0, np.zeros(count, bool)

    def enter(self, realize: Any) -> tuple[tuple[list[int], list[int]], np.ndarray]:
        """Learn a block's variables.

        Returns:
            Sizes of those that are computed and of those that are summed over, and (l,) whether a
            loop moves a variable that is summed over.
        """
        sizes: tuple[list[int], list[int]] = ([], [])
        reduces = np.zeros(len(self.first) - 1, bool)
        values = {}
        for variable, expression in zip(realize.block.iter_vars, realize.iter_values, strict=True):
            value = values[hash(variable.var)] = self.value(expression)
            summed = int(variable.iter_type) == REDUCES
            sizes[summed].append(_number(variable.dom.extent))
            if summed:
                reduces |= value[1:] != value[0]
        self.values |= values
        return sizes, reduces

    def value(self, value: Any) -> np.ndarray:
        """Return (1 + l,) of an index; 0 of what is read from a buffer."""
        kind = type(value).__name__
        if kind == "Var":
            return self.values.get(hash(value), self.first)
        if kind == "IntImm":
            return self.first + int(value.value)
        if (compute := BINARY.get(kind)) is not None:
            with np.errstate(divide="ignore"):
                return compute(self.value(value.a), self.value(value.b))
        return self.value(value.value) if kind == "Cast" else self.first

    def access(self, buffer: Any, indices: Sequence[Any], inside: int) -> Access:
        """Return a load or a store; of very many dimensions the inner dimensions."""
        rows = np.array([self.value(index) for index in indices] or [self.first])[-DIMENSIONS:]
        shape = np.array([_number(x) for x in buffer.shape] or [1], np.int64)[-DIMENSIONS:]
        return Access(np.abs(rows[:, 1:] - rows[:, :1]), shape, _bytes(str(buffer.dtype)), inside)

    def walk(self, value: Any) -> None:
        """Look through a value."""
        kind = type(value).__name__
        if kind == "TensorLoad":
            self.loads.append(value)
        elif kind == "Call":
            arguments = list(value.args)
            if getattr(value.op, "name", "") == CONDITIONAL:
                self.condition(arguments.pop(0))
            for argument in arguments:
                self.walk(argument)
        elif kind not in ("Var", "IntImm", "FloatImm"):
            if kind == "Select":
                self.condition(value.condition)
            for part in CHILDREN:
                if (child := getattr(value, part, None)) is not None:
                    self.walk(child)

    def condition(self, value: Any) -> None:
        """Note a condition, and which loops it depends on."""
        self.conditions += 1
        todo = [value]
        while todo:
            term = todo.pop()
            kind = type(term).__name__
            if kind in COMPARED:
                gap = self.value(term.a) - self.value(term.b)
                self.conditional |= gap[1:] != gap[0]
            else:
                todo += [getattr(term, side) for side in SIDES.get(kind, ())]


def _number(value: Any) -> int:
    return int(value.value) if type(value).__name__ == "IntImm" else 1


def _bytes(kind: str) -> int:
    return max(1, int("".join(c for c in kind if c.isdigit()) or 8) // 8)
