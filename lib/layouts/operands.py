"""Which tensor each layout of a configuration is about, and which layout the operation wants.

The features do not say which operand is which, and edges come in the order of instruction ids,
where weights often precede what they are multiplied with. Shapes tell: a convolution's dimension
numbers fit one order of its operands, and a dot's output shape is made of what is left of its
operands'. Where both orders fit, a parameter is taken as the kernel.

A compiler brings every convolution and dot to a form that its kernels take: batch, space, features
for a convolution; batch, rows, columns for a dot. So an operand is best laid out so that this
form is row-major. (XLA's ``convolution-canonicalization`` and ``dot-decomposer`` do it on CPUs.)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations

from lib.layouts.orders import Order, Shape, row_major
from lib.layouts.program import Program
from lib.tpugraphs.opcodes import CONVOLUTION, DOT, ID_OF_NAME

PARAMETER = ID_OF_NAME["parameter"]
LARGEST_RANK = 6  # of operands whose dimensions are matched; others count as row-major
NUMBERS = "convolution_dim_numbers_"


@dataclass(frozen=True)
class Slots:
    """The three layouts of a configurable node: output, input, kernel.

    Attributes:
        tensors: the nodes that they are about; -1 where there is none.
        wanted: the order that the operation itself wants of each; ``()`` where there is none.
    """

    tensors: tuple[int, int, int]
    wanted: tuple[Order, Order, Order]


@dataclass(frozen=True)
class DotNumbers:
    """Dimensions of both operands of a dot: batch, free and contracted ones."""

    batch: tuple[Order, Order]
    free: tuple[Order, Order]
    contracted: tuple[Order, Order]

    @property
    def canonical(self) -> bool:
        """Whether kernels take the operands as they are."""
        leading = all(one == tuple(range(len(one))) for one in self.batch)
        return leading and len(self.contracted[0]) == 1 and max(map(len, self.free)) <= 1


def slots_of(program: Program, node: int) -> Slots:
    """The slots of a configurable node."""
    operands = program.operands[node][:2]
    opcode = program.opcode[node]
    if len(operands) == 1 and opcode in (CONVOLUTION, DOT):
        operands = operands * 2  # both are one tensor, which has one edge
    if len(operands) < 2 or opcode not in (CONVOLUTION, DOT):
        tensors = (node, *operands[:1])
        own = opcode in (CONVOLUTION, DOT)  # others run in the program's order
        wanted = tuple(
            row_major(len(program.shapes[one])) if own else program.plain(one) for one in tensors
        )
        missing = 3 - len(tensors)
        return Slots((*tensors, *[-1] * missing), (*wanted, *[()] * missing))
    return (_convolution if opcode == CONVOLUTION else _dot)(program, node, *operands)


def _ordered(program: Program, one: int, other: int, fits: tuple[bool, bool]) -> tuple[int, int]:
    """Input and kernel of two operands, by whether they fit as they are and swapped."""
    parameter = [program.opcode[x] == PARAMETER for x in (one, other)]
    swap = fits[1] and (not fits[0] or (parameter[0] and not parameter[1]))
    return (other, one) if swap else (one, other)


def _convolution(program: Program, node: int, one: int, other: int) -> Slots:
    shapes = program.shapes
    out = shapes[node]
    space = range(len(out) - 2)

    def number(name: str) -> int:
        """One of the convolution's dimension numbers."""
        return program.number(node, NUMBERS + name)

    batch, features = number("input_batch_dim"), number("input_feature_dim")
    inputs, outputs = number("kernel_input_feature_dim"), number("kernel_output_feature_dim")
    out_batch, out_features = number("output_batch_dim"), number("output_feature_dim")
    groups = max(1, program.number(node, "feature_group_count"))
    batch_groups = max(1, program.number(node, "batch_group_count"))

    def fits(x: Shape, kernel: Shape) -> bool:
        """Whether the shapes can be the input's and the kernel's."""
        if max(batch, features) >= len(x) or max(inputs, outputs) >= len(kernel):
            return False
        return (
            max(out_batch, out_features) < len(out)
            and x[features] == kernel[inputs] * groups
            and x[batch] == out[out_batch] * batch_groups
            and out[out_features] == kernel[outputs]
        )

    both = fits(shapes[one], shapes[other]), fits(shapes[other], shapes[one])
    tensors = node, *_ordered(program, one, other, both)
    out_space = [d for d in range(len(out)) if d not in (out_batch, out_features)]
    major = (
        (out_batch, *out_space, out_features),
        (batch, *(number(f"input_spatial_dims_{d}") for d in space if d < 4), features),
        (*(number(f"kernel_spatial_dims_{d}") for d in space if d < 4), inputs, outputs),
    )
    return _wanting(program, tensors, major)


def _dot(program: Program, node: int, one: int, other: int) -> Slots:
    shapes = program.shapes
    out = shapes[node]
    numbers = [dot_numbers(shapes[a], shapes[b], out) for a, b in ((one, other), (other, one))]
    fits = numbers[0] is not None, numbers[1] is not None
    lhs, rhs = _ordered(program, one, other, fits)
    found = numbers[0 if (lhs, rhs) == (one, other) else 1]
    major: tuple[Sequence[int], ...] = ((), (), ())
    if found is not None and not found.canonical:
        major = (
            (),
            (*found.batch[0], *found.free[0], *found.contracted[0]),
            (*found.batch[1], *found.contracted[1], *found.free[1]),
        )
    return _wanting(program, (node, lhs, rhs), major)


def _wanting(program: Program, tensors: tuple[int, ...], major: tuple[Sequence[int], ...]) -> Slots:
    """Slots that want these orders, major to minor; row-major where one is no permutation."""
    wanted = []
    for tensor, order in zip(tensors, major, strict=True):
        rank = len(program.shapes[tensor])
        known = sorted(order) == list(range(rank))
        wanted.append(tuple(reversed(order)) if known else row_major(rank))
    return Slots(tensors, tuple(wanted))


def dot_numbers(lhs: Shape, rhs: Shape, out: Shape) -> DotNumbers | None:
    """The plainest dimension numbers with which a dot of these shapes has this output.

    The output's dimensions are the batch, then what is left of the left operand, then of the right
    one, each in order. Plainest means: something is contracted, batch dimensions lead, there are
    as many of them as can be, and the left operand's last dimension is contracted with the right
    one's first after the batch.

    Returns:
        ``None`` if there are none.
    """
    if max(len(lhs), len(rhs)) > LARGEST_RANK:
        return None
    found = [(_oddity(one, len(lhs)), one) for one in _candidates(lhs, rhs, out)]
    return min(found, key=lambda pair: pair[0])[1] if found else None


def _oddity(one: DotNumbers, rank: int) -> tuple:
    moved = sum(abs(d - i) for side in one.batch for i, d in enumerate(side))
    batch = len(one.batch[0])
    late = sum(rank - 1 - d for d in one.contracted[0])
    early = sum(abs(d - batch) for d in one.contracted[1])
    crossed = one.contracted[1] != tuple(sorted(one.contracted[1]))
    return not one.contracted[0], moved, -batch, late, early, crossed


def _candidates(lhs: Shape, rhs: Shape, out: Shape) -> Iterator[DotNumbers]:
    for batch in range(min(len(lhs), len(rhs), len(out)) + 1):
        twice = len(lhs) + len(rhs) - len(out) - batch
        if twice < 0 or twice % 2:
            continue
        shared = out[:batch]
        count = twice // 2  # contracted dimensions
        rows = out[batch : len(lhs) - count]
        columns = out[len(lhs) - count :]
        for left in _splits(lhs, shared, count, rows):
            sizes = [lhs[d] for d in left[2]]
            for right in _splits(rhs, shared, count, columns, sizes):
                yield DotNumbers(*zip(left, right, strict=True))


def _splits(
    shape: Shape, batch: Shape, count: int, free: Shape, sizes: Shape | None = None
) -> Iterator[tuple[Order, Order, Order]]:
    """Ways to take batch, free and ``count`` contracted dimensions of given sizes from a shape.

    Contracted ones are ascending if their sizes are not given, else in the order of the sizes.
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
