"""How often a library call computes each of its operations: YNNPACK's loops, one in another.

The library computes an operation inside the loops of those who read it, as far as its own loops
are alike: as long and, of products, in tiles as large. A loop may go over something that an
operation has no part in, such as the columns of a product that reads all of its channels: then
the operation is computed again in every turn. A window that reads over the edge of a tile repeats
what is at the edge. So a convolution in the call of another one can be computed many times.

These are the rules of the YNNPACK in JAX 0.10.2 (``ynnpack/subgraph``: ``runtime.cc``,
``slinky.cc`` and ``dot.cc`` of June 2026), as far as shapes tell. Nothing in them depends on the
processor. What they leave out: how operands are packed, and reductions that are split in two. How
often what they foretell was measured, ``docs/explanation/what-helped.md`` says.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from lib.compiler.cpu.library import BROADCAST, PRODUCTS, REDUCE, REDUCTIONS, Library
from lib.compiler.operands import INPUT
from lib.compiler.orders import squeezed_shape
from lib.tpugraphs.opcodes import CONVOLUTION, DOT, RESHAPE

AREA = 1 << 15  # elements of a tile, and of a block of a product's kernel
BLOCK, FIRST_ROWS, TALL, REGISTER = 64, 16, 4, 16  # of a product's tiles, see :func:`tile`
MOST_SUMMED, MOST_READ, LARGEST_AREA = 1024, 1 << 16, 1 << 16
NAMED = 6  # dimensions that the features show
ROWS_RANK = 3  # of a dot's output, all of whose dimensions but the last are rows


class Loop(NamedTuple):
    """A loop that an operation has if it is computed by itself.

    Attributes:
        dimension: of the output, of a reduction of what it reads.
        extent, step: of the dimension, and of a turn.
        required: whether the operation cannot do with another step.
    """

    dimension: int
    extent: int
    step: int
    required: bool


class Need(NamedTuple):
    """The share of a dimension that is needed in one turn of a loop."""

    dimension: int
    share: float


@dataclass
class Placed:
    """The operations of a call whose loops are known.

    Attributes:
        loops: each [extent, step, required].
        nest: of each operation its loops, by their numbers, the outermost first.
        output: what one turn of a loop needs of an operation's output; ``None``: all of it.
        read: what it reads of its operand by a loop of its own, of a reduction.
    """

    loops: list[list] = field(default_factory=list)
    nest: dict[int, list[int]] = field(default_factory=dict)
    output: dict[int, dict[int, Need | None]] = field(default_factory=dict)
    read: dict[int, dict[int, Need]] = field(default_factory=dict)


class LoopNests:
    """The loops of one program's library calls."""

    def __init__(self, library: Library):
        self._library, self._graph = library, library.graph
        order = enumerate(library.facts.operands_first)
        self._position = {node: position for position, node in order}
        self._own: dict[int, list[Loop]] = {}

    def times(self, members: Collection[int]) -> dict[int, float]:
        """How often each operation of a call is computed, 1 or more.

        Args:
            members: the nodes of the call.
        """
        placed, times = Placed(), {}
        for node in sorted(members, key=self._position.__getitem__, reverse=True):
            users = [user for user in self._graph.users[node] if user in placed.nest]
            self._place(placed, node, users)
            times[node] = self._repeated(placed, node)
        return times

    def _place(self, placed: Placed, node: int, users: Sequence[int]) -> None:
        """Where a node is computed: in the loops of all its users that its own are like."""
        shared, loops = _common([placed.nest[user] for user in users]), self._loops(node)
        if any(self._parts(user, node) for user in users):
            shared = []
        matched = 0
        if loops:
            inner, matched = _matched(loops, shared, placed.loops)
            shared = shared[:inner]
        placed.output[node] = {loop: self._needed(placed, node, users, loop) for loop in shared}
        placed.nest[node], placed.read[node] = list(shared), {}
        for loop in loops[matched:]:
            number = len(placed.loops)
            placed.loops.append([loop.extent, loop.step, loop.required])
            placed.nest[node].append(number)
            need = Need(loop.dimension, loop.step / loop.extent)
            reads = self._graph.opcode[node] in REDUCTIONS
            (placed.read if reads else placed.output)[node][number] = need

    def _parts(self, user: int, node: int) -> bool:
        """Whether a reader wants a node in another form, which is written before any of its loops:
        through a reshape that moves sizes, or as the rows of a dot."""
        graph = self._graph
        if graph.opcode[user] == RESHAPE:
            node_shape, user_shape = (
                squeezed_shape(graph.shapes[tensor]) for tensor in (node, user)
            )
            return node_shape != user_shape and len(node_shape) > 1
        dots = (graph.shapes[dot] for dot in (user, node) if graph.opcode[dot] == DOT)
        return any(len(shape) == ROWS_RANK and shape[0] > 1 for shape in dots)

    def _repeated(self, placed: Placed, node: int) -> float:
        """How often a node is computed: more than once where turns need the same of it."""
        times = 1.0
        for number, need in placed.output[node].items():
            extent, step, _ = placed.loops[number]
            turns = -(-extent // step)
            times *= turns if need is None else min(turns, max(1.0, need.share * extent / step))
        return times

    def _needed(self, placed: Placed, node: int, users: Sequence[int], loop: int) -> Need | None:
        """What all users need of a node in a turn of a loop; ``None`` if that is all of it."""
        needs = [self._through(placed, user, node, loop) for user in users]
        if None in needs or len({need.dimension for need in needs}) != 1:
            return None
        return max(needs, key=lambda need: need.share)

    def _through(self, placed: Placed, user: int, node: int, loop: int) -> Need | None:
        """What one user needs of a node in a turn of a loop."""
        if loop in placed.read[user]:
            return placed.read[user][loop]
        need, graph = placed.output[user].get(loop), self._graph
        if need is None:
            return None
        shape, user_shape, opcode = graph.shapes[node], graph.shapes[user], graph.opcode[user]
        if opcode in PRODUCTS:
            return self._through_product(need, user, node)
        if opcode in REDUCTIONS:
            kept = self._kept(user, len(shape))
            return Need(kept[need.dimension], need.share) if len(kept) == len(user_shape) else None
        if opcode == BROADCAST:
            places = self._dimensions(user, len(shape))
            named = places.count(need.dimension) == 1 and shape
            named = named and shape[places.index(need.dimension)] == user_shape[need.dimension]
            return Need(places.index(need.dimension), need.share) if named else None
        if opcode == RESHAPE:
            same = need.dimension < min(len(shape), len(user_shape))
            same = same and shape[need.dimension] == user_shape[need.dimension]
            return need if same else None
        return need if shape == user_shape else None

    def _kept(self, reduction: int, rank: int) -> list[int]:
        """The dimensions of what a reduction reads that its output has."""
        if self._graph.opcode[reduction] != REDUCE:
            return list(range(rank))
        gone = self._dimensions(reduction, rank - self._graph.rank(reduction))
        return [dimension for dimension in range(rank) if dimension not in gone]

    def _dimensions(self, node: int, count: int) -> list[int]:
        """The first dimensions that an instruction names."""
        return [self._graph.feature(node, f"dimensions_{d}") for d in range(min(count, NAMED))]

    def _through_product(self, need: Need, user: int, node: int) -> Need | None:
        graph, user_shape = self._graph, self._graph.shapes[user]
        if node != self._library.tensors(user)[INPUT] or need.dimension == len(user_shape) - 1:
            return None
        shape = graph.shapes[node]
        if len(shape) < len(user_shape):
            return None
        if graph.opcode[user] != CONVOLUTION or need.dimension == 0:
            return Need(min(need.dimension, len(shape) - 2), need.share)
        window, stride = (
            max(1, round(max(1, graph.feature(user, f"window_{name}_product")) ** 0.5))
            for name in ("size", "stride")
        )
        rows = need.share * user_shape[need.dimension]
        return Need(
            need.dimension, min(1.0, ((rows - 1) * stride + window) / shape[need.dimension])
        )

    def _loops(self, node: int) -> list[Loop]:
        """A node's own loops, the outermost first."""
        if node not in self._own:
            product = self._graph.opcode[node] in PRODUCTS
            self._own[node] = self._of_product(node) if product else self._of_tensor(node)
        return self._own[node]

    def _of_product(self, node: int) -> list[Loop]:
        graph, shape = self._graph, self._graph.shapes[node]
        columns, rows = shape[-1], shape[-2]
        if graph.opcode[node] != CONVOLUTION and len(shape) <= ROWS_RANK:
            rows = self._library.elements[node] // columns
        step_rows, step_columns = tile(rows, columns, int(self._library.work(node)))
        last = len(shape) - 1
        loops = (
            Loop(last, columns, step_columns, True),
            Loop(last - 1, rows, step_rows, True),
        )
        return [loop for loop in loops if loop.step < loop.extent]

    def _of_tensor(self, node: int) -> list[Loop]:
        """Tiles of at most ``AREA`` elements, the last dimensions whole as long as they fit."""
        shape, area, loops = self._graph.shapes[node], 1, []
        if self._graph.opcode[node] in REDUCTIONS:
            largest = max(self._graph.operands[node], key=self._library.elements.__getitem__)
            shape = self._graph.shapes[largest]
        for dimension in range(len(shape) - 1, -1, -1):
            step = max(1, min(AREA // area, shape[dimension]))
            if step < shape[dimension]:
                loops.append(Loop(dimension, shape[dimension], step, False))
            area *= step
        return loops[::-1]


def _common(nests: Sequence[Sequence[int]]) -> list[int]:
    """The outermost loops that all nests have."""
    shared = []
    for level in zip(*nests, strict=False):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return shared


def _matched(new: Sequence[Loop], shared: Sequence[int], loops: list[list]) -> tuple[int, int]:
    """How many shared loops a node's ``new`` loops are like, and how many of the new ones.

    Steps that are required replace those that are not.
    """
    inner = matched = 0
    while inner < len(shared) and matched < len(new):
        loop, outer = new[matched], loops[shared[inner]]
        both_required = loop.required and outer[2]
        if loop.extent != outer[0] or (both_required and loop.step != outer[1]):
            break
        if loop.required:
            outer[1:] = loop.step, True
        inner, matched = inner + 1, matched + 1
    return inner, matched


@lru_cache(maxsize=1 << 14)
def tile(rows: int, columns: int, summed: int) -> tuple[int, int]:
    """Rows and columns of a product, each element a sum of ``summed``, that one turn computes.

    A tile is doubled, rows first, until what is read for it, or its area, is large enough
    (``choose_split_factors``); it begins with a block of the kernel (``define_pack_b``).
    """
    block = BLOCK * max(1, AREA // (BLOCK * max(1, summed)))
    own_columns = min(columns, block, -(-columns // REGISTER) * REGISTER)
    own_rows, summed = min(rows, FIRST_ROWS), min(summed, MOST_SUMMED)
    least = min(rows, BLOCK) * min(columns, BLOCK)
    while True:
        area, read = own_rows * own_columns, (own_rows + own_columns) * summed
        if area >= least and (read >= MOST_READ or area >= LARGEST_AREA):
            break
        if own_columns < columns and (own_rows >= rows or own_rows >= TALL * own_columns):
            own_columns *= 2
        elif own_rows < rows:
            own_rows *= 2
        else:
            break
    return min(own_rows, rows), min(own_columns, columns)
