"""Tensors that the layouts of a configuration constrain, and the layouts that operations prefer.

The features do not say which operand is the input and which the kernel. Edges come in the order of
instruction ids, where weights often precede the tensor that they are multiplied with. Shapes
decide: a convolution's dimension numbers and window sizes fit one order of its operands, and a
dot's output shape consists of its operands' dimensions that are not contracted. If both orders fit,
a parameter is taken as the kernel.

A compiler brings every convolution and dot to the form that its kernels take: batch, space,
features for a convolution; batch, rows, columns for a dot. So the best layout of an operand is the
one in which this form is row-major. (On CPUs, XLA's ``convolution-canonicalization`` and
``dot-decomposer`` do this.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from lib.compiler.graph import TensorGraph
from lib.compiler.orders import Order, Shape, row_major
from lib.tpugraphs.opcodes import CONVOLUTION, DOT, ID_OF_NAME

PARAMETER = ID_OF_NAME["parameter"]
LARGEST_RANK = 6  # dimensions of larger operands are not matched: they are row-major
NUMBERS = "convolution_dim_numbers_"
OUTPUT, INPUT, KERNEL = range(3)  # roles of the tensors that a configurable node has layouts for
ROLES = ("output", "input", "kernel")
OPERAND_ROLES = (INPUT, KERNEL)
Split = tuple[Order, Order, Order]  # an operand's batch, free and contracted dimensions


@dataclass(frozen=True)
class ConstrainedTensors:
    """The tensors that the three layouts of a configurable node constrain, by role.

    Attributes:
        tensors: the nodes whose outputs they are; -1 for a role without a tensor.
        preferred: the order that the operation itself prefers for each; ``()`` without a tensor.
    """

    tensors: tuple[int, int, int]
    preferred: tuple[Order, Order, Order]


@dataclass(frozen=True)
class DotNumbers:
    """Dimensions of both operands of a dot: batch, free and contracted ones."""

    batch: tuple[Order, Order]
    free: tuple[Order, Order]
    contracted: tuple[Order, Order]

    @property
    def canonical(self) -> bool:
        """Return whether kernels take both operands without a copy."""
        leading = all(dimensions == tuple(range(len(dimensions))) for dimensions in self.batch)
        return leading and len(self.contracted[0]) == 1 and max(map(len, self.free)) <= 1


def constrained_tensors(graph: TensorGraph, node: int) -> ConstrainedTensors:
    """Return the tensors that the layouts of a configurable node constrain."""
    operands, opcode = graph.operands[node][:2], graph.opcode[node]
    is_product = opcode in (CONVOLUTION, DOT)
    if is_product and operands:
        first, second = operands[0], operands[-1]  # one tensor for both has one edge
        return (_convolution if opcode == CONVOLUTION else _dot)(graph, node, first, second)
    tensors = (node, *operands[:1])
    preferred = tuple(
        row_major(graph.rank(tensor)) if is_product else graph.plain[tensor] for tensor in tensors
    )
    missing = 3 - len(tensors)
    return ConstrainedTensors((*tensors, *[-1] * missing), (*preferred, *[()] * missing))


def _input_and_kernel(
    graph: TensorGraph, first: int, second: int, fits: tuple[bool, bool]
) -> tuple[int, int]:
    """Return input and kernel of two operands; ``fits`` says if they fit in order and swapped."""
    parameter = [graph.opcode[operand] == PARAMETER for operand in (first, second)]
    swap = fits[1] and (not fits[0] or (parameter[0] and not parameter[1]))
    return (second, first) if swap else (first, second)


def _convolution(graph: TensorGraph, node: int, first: int, second: int) -> ConstrainedTensors:
    """Return the tensors of a convolution of two operands in either order."""
    shapes = graph.shapes
    fits = (
        _is_convolution(graph, node, shapes[first], shapes[second]),
        _is_convolution(graph, node, shapes[second], shapes[first]),
    )
    source, kernel = _input_and_kernel(graph, first, second, fits)

    def dimensions(*names: str) -> tuple[int, ...]:
        return tuple(graph.feature(node, NUMBERS + name) for name in names)

    space = range(min(4, graph.rank(node) - 2))
    batch, features = dimensions("output_batch_dim", "output_feature_dim")
    output_space = [d for d in range(graph.rank(node)) if d not in (batch, features)]
    input_space, kernel_space = (
        [f"{name}_spatial_dims_{d}" for d in space] for name in ("input", "kernel")
    )
    major_to_minor = (
        (batch, *output_space, features),
        dimensions("input_batch_dim", *input_space, "input_feature_dim"),
        dimensions(*kernel_space, "kernel_input_feature_dim", "kernel_output_feature_dim"),
    )
    return _preferring(graph, (node, source, kernel), major_to_minor)


def _is_convolution(graph: TensorGraph, node: int, source: Shape, kernel: Shape) -> bool:
    """Return whether two shapes can be those of a convolution's input and kernel."""
    output = graph.shapes[node]

    def dimension(name: str, shape: Shape) -> int | None:
        """Return the size of a dimension that a dimension number names; ``None`` without one."""
        number = graph.feature(node, NUMBERS + name)
        return shape[number] if 0 <= number < len(shape) else None

    for d in range(min(4, len(output) - 2)):
        window = graph.feature(node, f"window_size_{d}")  # 0 without one
        if window and window != dimension(f"kernel_spatial_dims_{d}", kernel):
            return False
    batch, features = (dimension(f"input_{name}_dim", source) for name in ("batch", "feature"))
    inputs, outputs = (
        dimension(f"kernel_{name}_feature_dim", kernel) for name in ("input", "output")
    )
    out_batch, out_features = (
        dimension(f"output_{name}_dim", output) for name in ("batch", "feature")
    )
    if None in (batch, features, inputs, outputs, out_batch, out_features):
        return False
    groups = max(1, graph.feature(node, "feature_group_count"))
    batch_groups = max(1, graph.feature(node, "batch_group_count"))
    return (
        features == inputs * groups
        and batch == out_batch * batch_groups
        and out_features == outputs
    )


def _dot(graph: TensorGraph, node: int, first: int, second: int) -> ConstrainedTensors:
    """Return the tensors of a dot of two operands in either order."""
    shapes = graph.shapes
    in_order, swapped = (
        dot_numbers(shapes[a], shapes[b], shapes[node])
        for a, b in ((first, second), (second, first))
    )
    fits = in_order is not None, swapped is not None
    lhs, rhs = _input_and_kernel(graph, first, second, fits)
    dot = in_order if (lhs, rhs) == (first, second) else swapped
    major_to_minor: tuple[Sequence[int], ...] = ((), (), ())
    if dot is not None and not dot.canonical:
        major_to_minor = (
            (),
            (*dot.batch[0], *dot.free[0], *dot.contracted[0]),
            (*dot.batch[1], *dot.contracted[1], *dot.free[1]),
        )
    return _preferring(graph, (node, lhs, rhs), major_to_minor)


def _preferring(
    graph: TensorGraph, tensors: tuple[int, int, int], major_to_minor: tuple[Sequence[int], ...]
) -> ConstrainedTensors:
    """Return tensors with these orders preferred, or row-major if one is no permutation."""
    preferred = []
    for tensor, order in zip(tensors, major_to_minor, strict=True):
        rank = graph.rank(tensor)
        is_permutation = sorted(order) == list(range(rank))
        preferred.append(tuple(reversed(order)) if is_permutation else row_major(rank))
    return ConstrainedTensors(tensors, tuple(preferred))


def dot_numbers(lhs: Shape, rhs: Shape, out: Shape) -> DotNumbers | None:
    """Return the plainest dimension numbers with which a dot of these shapes has this output.

    ``None`` if there are none. The output's dimensions are the batch, then the left operand's free
    ones, then the right operand's, each in order. In the plainest dot something is contracted,
    batch dimensions lead, they are as many as possible, and the left operand's last dimension is
    contracted with the right one's first after the batch.
    """
    if max(len(lhs), len(rhs)) > LARGEST_RANK:
        return None
    return min(_candidates(lhs, rhs, out), key=lambda dot: _oddity(dot, len(lhs)), default=None)


def _oddity(numbers: DotNumbers, rank: int) -> tuple:
    """Return a sort key, the plainest dot first; ``rank`` is the left operand's."""
    sides = list(zip(numbers.batch, numbers.free, numbers.contracted, strict=True))
    (moved, late), (also_moved, *early) = _left_oddity(sides[0], rank), _right_oddity(sides[1])
    return not numbers.contracted[0], moved + also_moved, -len(numbers.batch[0]), late, *early


def _left_oddity(split: Split, rank: int) -> tuple[int, int]:
    """Return how far batch dimensions moved, and contracted ones are from the left one's end."""
    batch, _, contracted = split
    return _moved(batch), sum(rank - 1 - d for d in contracted)


def _right_oddity(split: Split) -> tuple[int, int, bool]:
    """Return how far batch dimensions moved, and contracted ones are from the right one's start."""
    batch, _, contracted = split
    early = sum(abs(d - len(batch)) for d in contracted)
    return _moved(batch), early, contracted != tuple(sorted(contracted))


def _moved(batch: Order) -> int:
    """Return how far batch dimensions are from leading ones."""
    return sum(abs(d - i) for i, d in enumerate(batch))


def _candidates(lhs: Shape, rhs: Shape, out: Shape) -> Iterator[DotNumbers]:
    """Yield dimension numbers that fit, the plainest among them.

    The parts of both operands depend on one another only through the sizes of the contracted
    dimensions, so the plainest part for each list of sizes is enough. (A tensor of rank 6 with the
    same size everywhere would have hundreds of thousands of pairs.)
    """
    for batch in range(min(len(lhs), len(rhs), len(out)) + 1):
        twice = len(lhs) + len(rhs) - len(out) - batch
        if twice < 0 or twice % 2:
            continue
        shared = out[:batch]
        count = twice // 2  # contracted dimensions
        lhs_free, rhs_free = out[batch : len(lhs) - count], out[len(lhs) - count :]
        lefts = list(_splits(lhs, shared, count, lhs_free))
        lefts.sort(key=lambda left: _left_oddity(left, len(lhs)))  # keeps the order of equal ones
        plainest: dict[Shape, Split] = {}
        for left in lefts:
            plainest.setdefault(tuple(lhs[d] for d in left[2]), left)
        for sizes, left in plainest.items():
            rights = _splits(rhs, shared, count, rhs_free, sizes)
            right = min(rights, key=_right_oddity, default=None)
            if right is not None:
                yield DotNumbers(*zip(left, right, strict=True))


def _splits(
    shape: Shape, batch: Shape, count: int, free: Shape, sizes: Shape | None = None
) -> Iterator[Split]:
    """Yield the ways to take batch, free and ``count`` contracted dimensions from a shape.

    Contracted ones are in the order of their ``sizes``, or ascending if no sizes are given.
    """
    for leading in permutations(range(len(shape)), len(batch)):
        if [shape[d] for d in leading] != list(batch):
            continue
        rest = [d for d in range(len(shape)) if d not in leading]
        choices = combinations(rest, count) if sizes is None else permutations(rest, count)
        for contracted in choices:
            if sizes is not None and [shape[d] for d in contracted] != list(sizes):
                continue
            left = tuple(d for d in rest if d not in contracted)
            if [shape[d] for d in left] == list(free):
                yield leading, left, contracted
