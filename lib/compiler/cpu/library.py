"""Operations that XLA for CPUs can hand to a library, and their work.

XLA hands dots, convolutions and reductions to YNNPACK, and with a reduction the elementwise
operations around it (:mod:`lib.compiler.cpu.calls`). They must be large enough, row-major, and of a
kind that the library supports. These are the rules of the XLA of JAX 0.10
(``xla/backends/cpu/ynn_support.cc``), as far as the features of a program decide them.
"""

from __future__ import annotations

from math import prod

from lib.compiler.cpu.facts import ProgramFacts
from lib.compiler.operands import KERNEL, dot_numbers
from lib.compiler.orders import same_in_memory
from lib.tpugraphs.encoding import FEATURE_NAMES
from lib.tpugraphs.opcodes import CONVOLUTION, DOT, ID_OF_NAME, RESHAPE

ELEMENTWISE_NAMES = (
    "abs", "ceil", "convert", "exponential", "exponential-minus-one", "floor", "log",
    "log-plus-one", "logistic", "negate", "round-nearest-even", "rsqrt", "sign", "sqrt", "tanh",
    "add", "divide", "maximum", "minimum", "multiply", "power", "subtract",
)  # fmt: skip
ELEMENTWISE = frozenset(ID_OF_NAME[name] for name in ELEMENTWISE_NAMES)
BROADCAST, CONSTANT = ID_OF_NAME["broadcast"], ID_OF_NAME["constant"]
DIVIDE, MAXIMUM, MINIMUM = (ID_OF_NAME[name] for name in ("divide", "maximum", "minimum"))
REDUCE, REDUCE_WINDOW = ID_OF_NAME["reduce"], ID_OF_NAME["reduce-window"]
REDUCTIONS = (REDUCE, REDUCE_WINDOW)
PRODUCTS = (DOT, CONVOLUTION)
TYPES = [FEATURE_NAMES.index(f"shape_element_type_is_{name}") for name in ("f32", "f64", "bf16")]
SMALLEST = 4096  # elements of an output or operand; smaller operations stay with XLA
FEW_FEATURES, FEW_SIZES = 16, 8  # features of a convolution, and sizes of a dot, too small
MOST_OPERANDS = 3  # operands of a reduction, with its initial value and its computation
PLANE = range(2)  # spatial dimensions of the convolutions that the library supports


class Library:
    """Operations of one program that the library takes."""

    def __init__(self, facts: ProgramFacts):
        self.facts, self.graph = facts, facts.graph
        self.elements = [prod(shape) for shape in self.graph.shapes]
        self._typed = (self.graph.features[:, TYPES] > 0).any(axis=1).tolist()
        self.takes = [self._takes(node) for node in range(len(self.elements))]

    def computes(self, node: int) -> bool:
        """Return whether a node is a product or a reduction, not an elementwise operation."""
        return int(self.graph.opcode[node]) in (*PRODUCTS, *REDUCTIONS)

    def is_small(self, node: int) -> bool:
        """Return whether a node's output and all of its operands have few elements."""
        of_operands = (self.elements[operand] for operand in self.graph.operands[node])
        return max(self.elements[node], *of_operands, 0) < SMALLEST

    def passes(self, operand: int, node: int) -> bool:
        """Return whether a node reads an operand in its own order, without configured layouts.

        A dot or convolution first brings an operand to the form that it needs, and a quotient by a
        broadcast tensor becomes a product with its reciprocals, which are few.
        """
        graph, facts = self.graph, self.facts
        if graph.opcode[node] == DIVIDE and graph.opcode[operand] == BROADCAST:
            return self._is_constant(operand)
        if node not in facts.place or graph.opcode[node] not in PRODUCTS:
            return True
        constrained = facts.constrained[facts.place[node]]
        return all(
            same_in_memory(order, graph.plain[tensor], graph.shapes[tensor])
            for tensor, order in zip(constrained.tensors, constrained.preferred, strict=True)
            if tensor == operand and order
        )

    def work(self, node: int) -> float:
        """Return the multiplications, or additions, for each element of a node's output."""
        graph, elements = self.graph, self.elements
        if graph.opcode[node] == CONVOLUTION:
            kernel = self.tensors(node)[KERNEL]
            features = graph.feature(node, "convolution_dim_numbers_output_feature_dim")
            return max(1.0, elements[kernel] / max(1, graph.shapes[node][features]))
        if graph.opcode[node] == DOT:
            return float(self._dot_sizes(node)[2])
        if graph.opcode[node] not in REDUCTIONS:
            return 1.0
        largest = max(elements[operand] for operand in graph.operands[node])
        return max(1.0, largest / max(1, elements[node]))

    def _takes(self, node: int) -> bool:
        """Return whether the library takes a node."""
        opcode, operands = int(self.graph.opcode[node]), self.graph.operands[node]
        if not self._typed[node] or not self.graph.shapes[node]:
            return False
        if opcode in (RESHAPE, BROADCAST):
            return True
        if opcode in ELEMENTWISE:
            if self._is_clamped(node):
                return False
            large = not self.is_small(node) or self._is_dropped(node)
            return large and all(self._typed[operand] for operand in operands)
        if opcode in REDUCTIONS:
            few = 0 < len(operands) <= MOST_OPERANDS
            return few and not self.is_small(node) and self._window_is_plain(node)
        if opcode not in PRODUCTS or min(self.tensors(node)) < 0:
            return False
        if opcode == CONVOLUTION:
            return self._takes_convolution(node)
        rows, columns, contracted = self._dot_sizes(node)
        return rows > 1 and columns > 1 and max(rows, columns, contracted) >= FEW_SIZES

    def _is_dropped(self, node: int) -> bool:
        """Return whether XLA drops a node: the maximum of a reduction and a constant.

        Every softmax has one, whose constant is the smallest number.
        """
        graph = self.graph
        if graph.opcode[node] != MAXIMUM:
            return False
        unreduced = [operand for operand in graph.operands[node] if graph.opcode[operand] != REDUCE]
        return len(unreduced) == 1 < len(graph.operands[node]) and self._is_constant(unreduced[0])

    def _is_clamped(self, node: int) -> bool:
        """Return whether XLA makes a node part of a clamp, which the library does not support.

        A clamp is a minimum of a constant and of a maximum of another constant.
        """
        graph = self.graph
        for low in (node, *graph.users[node]):
            operands = graph.operands[low]
            if graph.opcode[low] != MINIMUM or not any(map(self._is_constant, operands)):
                continue
            for high in operands:
                clamps = graph.opcode[high] == MAXIMUM and node in (low, high)
                if clamps and any(map(self._is_constant, graph.operands[high])):
                    return True
        return False

    def _is_constant(self, node: int) -> bool:
        """Return whether a node is a broadcast constant."""
        opcode, operands = self.graph.opcode, self.graph.operands[node]
        return opcode[node] == BROADCAST and all(opcode[o] == CONSTANT for o in operands)

    def tensors(self, node: int) -> tuple[int, int, int]:
        """Return the output, input and kernel of a product; -1 for one that is not known."""
        place = self.facts.place.get(node)
        return (-1, -1, -1) if place is None else self.facts.constrained[place].tensors

    def _window_is_plain(self, node: int) -> bool:
        """Return whether the windows of a reduction, if it has any, are adjacent."""
        if self.graph.opcode[node] == REDUCE:
            return True
        for dimension in range(min(6, self.graph.rank(node))):
            size, stride, dilation, base = (
                self.graph.feature(node, f"window_{name}_{dimension}")
                for name in ("size", "stride", "window_dilation", "base_dilation")
            )
            if (size > 1 and stride != size) or dilation > 1 or base > 1:
                return False
        return True

    def _takes_convolution(self, node: int) -> bool:
        """Return whether the library takes a convolution whose tensors are known."""
        graph, (_, source, _) = self.graph, self.tensors(node)
        if graph.rank(node) != 2 + len(PLANE) or graph.feature(node, "batch_group_count") > 1:
            return False

        def size(tensor: int, dimension: str) -> int:
            """Return the size of a dimension that a dimension number names; 0 without one."""
            number = graph.feature(node, f"convolution_dim_numbers_{dimension}")
            shape = graph.shapes[tensor]
            return shape[number] if 0 <= number < len(shape) else 0

        batch, features = (size(node, f"output_{name}_dim") for name in ("batch", "feature"))
        if not batch or not features:
            return False
        if max(size(source, "input_feature_dim"), features) <= FEW_FEATURES:
            return False
        places = 1
        for d in PLANE:
            extent = size(source, f"input_spatial_dims_{d}")
            dilated = graph.feature(node, f"window_base_dilation_{d}") > 1
            reversed_ = graph.feature(node, f"window_window_reversal_{d}") > 0
            if dilated or reversed_ or graph.feature(node, f"window_size_{d}") > extent:
                return False
            places *= extent
        return self.elements[node] // (batch * features) <= places

    def _dot_sizes(self, node: int) -> tuple[int, int, int]:
        """Return rows, columns and contracted elements of a dot; ones if they are not known."""
        _, left, right = self.tensors(node)
        shapes = self.graph.shapes
        numbers = dot_numbers(shapes[left], shapes[right], shapes[node])
        if numbers is None:
            return 1, 1, 1
        rows, columns = (
            prod(shapes[tensor][d] for d in free)
            for tensor, free in zip((left, right), numbers.free, strict=True)
        )
        return rows, columns, prod(shapes[left][d] for d in numbers.contracted[0])
