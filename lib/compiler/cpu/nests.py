"""Loop nests of a library call, and how often they compute each of its operations.

The library, YNNPACK, computes an operation inside the loops of its readers if its own loops match:
they have the same extent and, for products, the same tile. A loop of a reader may iterate over a
dimension that the operation does not have, such as the columns of a product that reads all of its
channels: then the operation is computed again in every turn. A window that reads over the edge of a
tile repeats the operations at the edge. So a convolution in the call of another one can be computed
many times.

These are the rules of the YNNPACK in JAX 0.10.2 (``ynnpack/subgraph``: ``runtime.cc``,
``slinky.cc`` and ``dot.cc`` of June 2026), as far as shapes decide them. They do not depend on the
processor. They leave out the packing of operands, and reductions that are split in two.
``docs/explanation/what-helped.md`` compares their predictions with measurements.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from lib.compiler.cpu.library import BROADCAST, PRODUCTS, REDUCE, REDUCTIONS, Library
from lib.compiler.operands import INPUT
from lib.tpugraphs.opcodes import CONVOLUTION, DOT, RESHAPE

AREA = 1 << 15  # elements of a tile, and of a block of a product's kernel
BLOCK, FIRST_ROWS, TALL, REGISTER = 64, 16, 4, 16  # bounds of tiles, see :func:`tile`
MOST_SUMMED, MOST_READ, LARGEST_AREA = 1024, 1 << 16, 1 << 16
NAMED = 6  # the features show so many dimensions
ROWS_RANK = 3  # up to this rank, all dimensions of a dot's output but the last are rows


class Loop(NamedTuple):
    """A loop of an operation that is computed by itself.

    Attributes:
        dimension: a dimension of the output, or of a reduction's operand.
        extent, step: elements of the dimension, and of a turn.
        required: whether the operation needs this step.
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
        loops: [extent, step, required] of each loop.
        nest: the numbers of each operation's loops, the outermost first.
        output: the part of an operation's output that one turn of a loop needs; ``None``: all.
        read: the part of its operand that a reduction reads in one turn of its own loop.
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
        """Return how often each operation of a call is computed, 1 or more.

        It is more than 1 if several turns of a loop need the same part of the output.

        Args:
            members: the nodes of the call.
        """
        placed, times = Placed(), {}
        for node in sorted(members, key=self._position.__getitem__, reverse=True):
            users = [user for user in self._graph.users[node] if user in placed.nest]
            self._place(placed, node, users)
            times[node] = 1.0
            for number, need in placed.output[node].items():
                extent, step, _ = placed.loops[number]
                turns = -(-extent // step)
                distinct = 1.0 if need is None else max(1.0, need.share * extent / step)
                times[node] *= turns if need is None else min(turns, distinct)
        return times

    def _place(self, placed: Placed, node: int, users: Sequence[int]) -> None:
        """Place a node in those loops of all its users that its own loops match."""
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
        """Return whether a reader takes a node in another form, written before any of its loops.

        Such a reader is a reshape that changes sizes, or a dot that takes it as rows.
        """
        graph = self._graph
        if graph.opcode[user] == RESHAPE:
            node_shape, user_shape = (
                [size for size in graph.shapes[tensor] if size > 1] for tensor in (node, user)
            )
            return node_shape != user_shape and len(node_shape) > 1
        dots = (graph.shapes[dot] for dot in (user, node) if graph.opcode[dot] == DOT)
        return any(len(shape) == ROWS_RANK and shape[0] > 1 for shape in dots)

    def _needed(self, placed: Placed, node: int, users: Sequence[int], loop: int) -> Need | None:
        """Return the part of a node that its users need in a turn of a loop; ``None``: all."""
        needs = [self._through(placed, user, node, loop) for user in users]
        if None in needs or len({need.dimension for need in needs}) != 1:
            return None
        return max(needs, key=lambda need: need.share)

    def _through(self, placed: Placed, user: int, node: int, loop: int) -> Need | None:
        """Return the part of a node that one user needs in a turn of a loop; ``None``: all."""
        if loop in placed.read[user]:
            return placed.read[user][loop]
        need, graph = placed.output[user].get(loop), self._graph
        if need is None:
            return None
        shape, user_shape, opcode = graph.shapes[node], graph.shapes[user], graph.opcode[user]
        if opcode in PRODUCTS:
            return self._through_product(need, user, node)
        if opcode in REDUCTIONS:
            gone = self._dimensions(user, len(shape) - len(user_shape)) if opcode == REDUCE else []
            kept = [dimension for dimension in range(len(shape)) if dimension not in gone]
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

    def _dimensions(self, node: int, count: int) -> list[int]:
        """Return the first dimensions that an instruction names."""
        return [self._graph.feature(node, f"dimensions_{d}") for d in range(min(count, NAMED))]

    def _through_product(self, need: Need, user: int, node: int) -> Need | None:
        """Return the part of its input that a product needs for a part of its output."""
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
        share = ((rows - 1) * stride + window) / shape[need.dimension]
        return Need(need.dimension, min(1.0, share))

    def _loops(self, node: int) -> list[Loop]:
        """Return a node's own loops, the outermost first."""
        if node not in self._own:
            product = self._graph.opcode[node] in PRODUCTS
            self._own[node] = self._of_product(node) if product else self._of_tensor(node)
        return self._own[node]

    def _of_product(self, node: int) -> list[Loop]:
        """Return loops over the tiles of a product's output."""
        graph, shape = self._graph, self._graph.shapes[node]
        columns, rows = shape[-1], shape[-2]
        if graph.opcode[node] != CONVOLUTION and len(shape) <= ROWS_RANK:
            rows = self._library.elements[node] // columns
        step_rows, step_columns = tile(rows, columns, int(self._library.work(node)))
        last = len(shape) - 1
        loops = Loop(last, columns, step_columns, True), Loop(last - 1, rows, step_rows, True)
        return [loop for loop in loops if loop.step < loop.extent]

    def _of_tensor(self, node: int) -> list[Loop]:
        """Return loops over tiles of at most ``AREA`` elements, the last dimensions whole if they
        fit."""
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
    """Return the outermost loops that all nests have."""
    shared = []
    for level in zip(*nests, strict=False):
        if len(set(level)) > 1:
            break
        shared.append(level[0])
    return shared


def _matched(new: Sequence[Loop], shared: Sequence[int], loops: list[list]) -> tuple[int, int]:
    """Return how many shared loops a node's ``new`` loops match, and how many of these do.

    Required steps replace those that are not required.
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
    """Return the rows and columns of a product that one turn computes.

    A tile begins with a block of the kernel (``define_pack_b``). It is doubled, rows first, until
    it reads enough elements, or its area is large enough (``choose_split_factors``).

    Args:
        rows, columns: those of the product.
        summed: products that each element is a sum of.
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
