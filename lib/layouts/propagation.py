"""Where a configuration makes data move: layouts spread through a program as a compiler does it.

A configuration fixes layouts of some tensors. Everything between them takes its layout from its
neighbours, and wherever two layouts meet, elements are moved. XLA's layout assignment works so: a
constraint spreads from an operand to what produces it, then from operands to results, and what is
left stays as it is in the program; a convolution or dot wants its own form
(:mod:`lib.layouts.operands`). Here it is done for all configurations of a batch at once, without
compiling anything.

Two things come of it, each with its bytes, from which :mod:`lib.layouts.rows` makes features:

* a *move*: a tensor is brought from one order to another, by a copy, or while it is read;
* a *state*: an operation runs on a tensor in another order than the program's own, or a reshape
  moves data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from lib.layouts.operands import Slots, slots_of
from lib.layouts.orders import Order, bitcast_order, squeezed
from lib.layouts.program import IS_ROOT, Program
from lib.tpugraphs.opcodes import DOT, ID_OF_NAME, RESHAPE

TRANSPOSE, TUPLE = ID_OF_NAME["transpose"], ID_OF_NAME["tuple"]
PARAMETER, REDUCE = ID_OF_NAME["parameter"], ID_OF_NAME["reduce"]
FREE = (ID_OF_NAME["constant"], ID_OF_NAME["iota"])  # take whatever order is asked of them
NONE = -1  # no order: the configuration, or the program, leaves it open

# Why a tensor is moved.
ASKED, DOT_WANTS, CONVOLUTION_WANTS, RESHAPED, DOT_GIVES, CONVOLUTION_GIVES, *_ = range(9)
TRANSPOSED, READ, REDUCED = range(6, 9)
REASONS = 9


@dataclass(frozen=True)
class Found:
    """Moves and states of some configurations.

    Attributes:
        moves: (m, 2) int64, rows [configuration, move's number].
        states: (s, 2) int64, rows [configuration, state's number].
    """

    moves: np.ndarray
    states: np.ndarray


@dataclass
class Numbered:
    """Things that are numbered in the order of their first appearance."""

    items: list[tuple] = field(default_factory=list)
    numbers: dict[tuple, int] = field(default_factory=dict)

    def number(self, item: tuple) -> int:
        """The item's number, a new one if it is new."""
        if item not in self.numbers:
            self.numbers[item] = len(self.items)
            self.items.append(item)
        return self.numbers[item]


class Propagation:
    """Spreads layouts through one program.

    Orders are numbers here, positions in ``orders``. Under b configurations a node's order is a
    (b,) array, or a (1,) array if it is the same under all.

    Attributes:
        slots: of each configurable node.
        moves: ``(tensor, from, to, reason, node that it happens for)`` by their numbers.
        states: ``(node, order before, order)`` by their numbers.
    """

    def __init__(self, program: Program):
        self.program = program
        self.slots: list[Slots] = [slots_of(program, int(node)) for node in program.sites]
        self.orders, self.moves, self.states = Numbered(), Numbered(), Numbered()
        self._site = {int(node): place for place, node in enumerate(program.sites)}
        ranks = [[self.rank(t) if t >= 0 else -1 for t in one.tensors] for one in self.slots]
        self._ranks = np.array(ranks).reshape(-1, 3)  # of the slots' tensors
        self._memory = program.bytes
        self._turned = _transposes(program)
        self._order = _operands_first(program)
        self._maps: dict[tuple, int] = {}
        self._plain = [self.orders.number(program.plain(n)) for n in range(len(program.opcode))]

    def numbers_of(self, digits: np.ndarray) -> np.ndarray:
        """Numbers of layouts as a configuration has them.

        Args:
            digits: (..., 6) integers, minor to major, -1 padded.

        Returns:
            (...) int64, ``NONE`` where no digit is set or they are no permutation.
        """
        flat, places = np.unique(digits.reshape(-1, digits.shape[-1]), axis=0, return_inverse=True)
        numbers = []
        for row in flat.tolist():
            order = tuple(d for d in row if d >= 0)
            known = order and sorted(order) == list(range(len(order)))
            numbers.append(self.orders.number(order) if known else NONE)
        return np.array(numbers, np.int64)[places.reshape(digits.shape[:-1])]

    def run(self, layouts: np.ndarray) -> Found:
        """Spread the layouts of some configurations.

        Args:
            layouts: (b, k, 3) int64 of :meth:`numbers_of`: output, input and kernel of each
                configurable node, in the order of the program's ``sites``.
        """
        return _Run(self, layouts).found()

    def rank(self, node: int) -> int:
        """Of a node's output."""
        return len(self.program.shapes[node])

    def moves_data(self, node: int) -> bool:
        """Whether a node's output has an order at all, and any bytes."""
        return self.rank(node) >= 2 and self._memory[node] > 0

    def mapped(self, what: str, node: int, number: int, find: Callable[[Order], Order]) -> int:
        """The number of ``find(order)``, remembered by (what, node, order)."""
        key = (what, node, number)
        if key not in self._maps:
            self._maps[key] = self.orders.number(find(self.orders.items[number]))
        return self._maps[key]

    def same_in_memory(self, tensor: int, one: int, other: int) -> bool:
        """Whether two orders of a tensor put every element at the same place."""
        shape = self.program.shapes[tensor]
        return squeezed(self.orders.items[one], shape) == squeezed(self.orders.items[other], shape)


class _Run:
    """One batch of configurations."""

    def __init__(self, of: Propagation, layouts: np.ndarray):
        self.of, self.program, self.count = of, of.program, len(layouts)
        self.layouts = self._fitting(layouts)
        nodes = len(of.program.opcode)
        self.wanted: list[np.ndarray | None] = [None] * nodes  # by those who read it
        self.order: list[np.ndarray | None] = [None] * nodes
        self.rows: dict[str, list[tuple[np.ndarray, np.ndarray]]] = {"moves": [], "states": []}

    def _fitting(self, layouts: np.ndarray) -> np.ndarray:
        """Layouts, but ``NONE`` where one has another rank than its tensor."""
        ranks = np.array([len(order) for order in self.of.orders.items])
        fits = (layouts >= 0) & (ranks[np.maximum(layouts, 0)] == self.of._ranks)
        return np.where(fits, layouts, NONE)

    def found(self) -> Found:
        """Wishes from users to operands, then orders from operands to users."""
        for node in reversed(self.of._order):
            if self.of.moves_data(node) and node not in self.of._site:
                self.wanted[node] = self._asked_by_users(node)
        for node in self.of._order:
            if self.of.moves_data(node):
                self.order[node] = self._visit(node)
        return Found(*(self._joined(name) for name in ("moves", "states")))

    def _asked_by_users(self, node: int) -> np.ndarray:
        """The order that the first user with a wish asks of a node's output, (b or 1,)."""
        found = np.full(1, NONE)
        for user in self.program.users[node]:
            if (found >= 0).all():
                break
            found = np.where(found >= 0, found, self._asked_by(user, node))
        if (found < 0).any() and self.program.features[node, IS_ROOT]:
            found = np.where(found >= 0, found, self.of._plain[node])
        return found

    def _asked_by(self, user: int, node: int) -> np.ndarray:
        opcode, nothing = self.program.opcode[user], np.full(1, NONE)
        if user in self.of._site:
            return self._asked_by_site(user, node)
        if opcode == TUPLE:
            return np.full(1, self.of._plain[node])
        wish = self.wanted[user]
        if wish is None or self.of.rank(user) != self.of.rank(node):
            return nothing
        return self._before_transpose(user, wish) if user in self.of._turned else wish

    def _asked_by_site(self, user: int, node: int) -> np.ndarray:
        place = self.of._site[user]
        slots, found = self.of.slots[place], np.full(1, NONE)
        for slot in (1, 2):
            if slots.tensors[slot] == node:
                own = self.layouts[:, place, slot]
                if self.program.opcode[user] != RESHAPE:
                    own = np.where(own >= 0, own, self.of.orders.number(slots.wanted[slot]))
                found = np.where(found >= 0, found, own)
        return found

    def _visit(self, node: int) -> np.ndarray:
        """The order of a node's output; moves and states on the way are kept."""
        opcode = self.program.opcode[node]
        plain = np.full(1, self.of._plain[node])
        if node in self.of._site:
            return self._visit_site(node)
        if opcode == PARAMETER:
            return plain
        wanted = self.wanted[node]
        if opcode in FREE:
            return np.where(wanted >= 0, wanted, plain)
        if node in self.of._turned and (read := self._read_by_transpose(node)) is not None:
            natural = self._after_transpose(node, read)
            order = np.where(wanted >= 0, wanted, natural)
            self._move(node, natural, order, TRANSPOSED, node)
        else:
            order = self._visit_operation(node, wanted, plain)
        self._state(node, order)
        return order

    def _visit_operation(self, node: int, wanted: np.ndarray, plain: np.ndarray) -> np.ndarray:
        """Its readers' wish, else the first operand's order that is not plain, else the plain."""
        alike = [
            operand
            for operand in self.program.operands[node]
            if self.of.rank(operand) == self.of.rank(node)
            and self.order[operand] is not None
            and self.program.opcode[operand] not in FREE
        ]
        order = wanted
        for operand in alike:
            read = self.order[operand]
            order = np.where((order >= 0) | (read == plain), order, read)
        order = np.where(order >= 0, order, plain)
        for operand in alike:
            self._move(operand, self.order[operand], order, READ, node)
        if self.program.opcode[node] == REDUCE:
            self._reduced(node)
        return order

    def _reduced(self, node: int) -> None:
        """A reduction's kernel reads its operands in their plain order."""
        for operand in self.program.operands[node]:
            if self.order[operand] is not None:
                plain = np.full(1, self.of._plain[operand])
                self._move(operand, self.order[operand], plain, REDUCED, node)

    def _visit_site(self, node: int) -> np.ndarray:
        place = self.of._site[node]
        slots, opcode = self.of.slots[place], self.program.opcode[node]
        asked, current = self.layouts[:, place], None
        for slot in (1, 2):
            tensor = slots.tensors[slot]
            if tensor < 0 or self.order[tensor] is None:
                continue
            read = np.where(asked[:, slot] >= 0, asked[:, slot], self.order[tensor])
            self._move(tensor, self.order[tensor], read, ASKED, node)
            current = read if slot == 1 else current
            if opcode != RESHAPE:
                wanted = np.full(1, self.of.orders.number(slots.wanted[slot]))
                reason = DOT_WANTS if opcode == DOT else CONVOLUTION_WANTS
                self._move(tensor, read, wanted, reason, node)
        if opcode == RESHAPE:
            natural, reason = self._reshaped(node, slots.tensors[1], current), RESHAPED
        else:
            natural = np.full(1, self.of.orders.number(slots.wanted[0]))
            reason = DOT_GIVES if opcode == DOT else CONVOLUTION_GIVES
        order = np.where(asked[:, 0] >= 0, asked[:, 0], natural)
        self._move(node, natural, order, reason, node)
        return order

    def _reshaped(self, node: int, operand: int, read: np.ndarray | None) -> np.ndarray:
        """The order in which a reshape moves nothing; row-major, and a state, if there is none."""
        if read is None:
            return np.full(1, self.of._plain[node])
        shapes = self.program.shapes

        def find(order: Order) -> Order:
            """The bitcast's order, or () if data must move."""
            return bitcast_order(order, shapes[operand], shapes[node]) or ()

        natural = self._each(read, lambda one: self.of.mapped("reshape", node, one, find))
        moved = natural == self.of.orders.number(())
        if moved.any():
            self._keep("states", moved, node, np.where(moved, read, NONE), natural)
        return np.where(moved, self.of._plain[node], natural)

    def _read_by_transpose(self, node: int) -> np.ndarray | None:
        return self.order[self.program.operands[node][0]]

    def _after_transpose(self, node: int, read: np.ndarray) -> np.ndarray:
        back = {source: d for d, source in enumerate(self.of._turned[node])}

        def find(order: Order) -> Order:
            """Of the output, where nothing moves."""
            return tuple(back[d] for d in order)

        return self._each(read, lambda one: self.of.mapped("after", node, one, find))

    def _before_transpose(self, node: int, wish: np.ndarray) -> np.ndarray:
        permutation = self.of._turned[node]

        def find(order: Order) -> Order:
            """Of the operand, where nothing moves."""
            return tuple(permutation[d] for d in order)

        return self._each(wish, lambda one: self.of.mapped("before", node, one, find))

    @staticmethod
    def _each(numbers: np.ndarray, find: Callable[[int], int]) -> np.ndarray:
        """``find`` of each number, ``NONE`` staying ``NONE``."""
        distinct, places = np.unique(numbers, return_inverse=True)
        return np.array([NONE if n < 0 else find(int(n)) for n in distinct])[places]

    def _move(
        self, tensor: int, before: np.ndarray, after: np.ndarray, reason: int, reader: int
    ) -> None:
        self._keep("moves", before != after, tensor, before, after, reason, reader)

    def _state(self, node: int, order: np.ndarray) -> None:
        self._keep("states", order != self.of._plain[node], node, order, order)

    def _keep(
        self,
        name: str,
        which: np.ndarray,
        node: int,
        one: np.ndarray,
        other: np.ndarray,
        *more: int,
    ) -> None:
        """Note (node, one, other, *more) for the configurations at ``which``, (b or 1,) each."""
        if not which.any():
            return
        size = len(self.of.orders.items)
        keys = np.where(which, one * size + other, NONE)
        distinct, places = np.unique(keys, return_inverse=True)
        numbers = np.full(len(distinct), NONE)
        table: Numbered = getattr(self.of, name)
        for index, key in enumerate(distinct.tolist()):
            if key >= 0 and self._tells(name, node, *divmod(key, size)):
                numbers[index] = table.number((node, *divmod(key, size), *more))
        rows = np.broadcast_to(numbers[places], self.count)
        kept = np.flatnonzero(rows >= 0)
        self.rows[name].append((kept, rows[kept]))

    def _tells(self, name: str, node: int, one: int, other: int) -> bool:
        """Whether elements lie elsewhere than they would."""
        of = self.of
        if name == "moves":
            return not of.same_in_memory(node, one, other)
        if not of.orders.items[other]:
            return True  # a reshape that moves data
        return not of.same_in_memory(node, other, of._plain[node])

    def _joined(self, name: str) -> np.ndarray:
        parts = self.rows[name]
        if not parts:
            return np.zeros((0, 2), np.int64)
        return np.stack([np.concatenate(side) for side in zip(*parts, strict=True)], axis=1)


def _transposes(program: Program) -> dict[int, tuple[int, ...]]:
    """Permutations of the transposes whose operand is there (pruning may have taken it)."""
    found = {}
    for node in np.flatnonzero(program.opcode == TRANSPOSE).tolist():
        permutation, operands = program.permutation(node), program.operands[node]
        same = operands and len(program.shapes[operands[0]]) == len(permutation)
        if same and sorted(permutation) == list(range(len(permutation))):
            found[node] = permutation
    return found


def _operands_first(program: Program) -> list[int]:
    """The nodes, operands before their users; those on a cycle are left out."""
    waiting = [len(operands) for operands in program.operands]
    ready = [node for node, count in enumerate(waiting) if count == 0][::-1]
    found = []
    while ready:
        node = ready.pop()
        found.append(node)
        for user in program.users[node]:
            waiting[user] -= 1
            if waiting[user] == 0:
                ready.append(user)
    return found
