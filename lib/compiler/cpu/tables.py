"""What the batches of configurations of one program share: its facts, and tables that grow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pandas as pd

from lib.compiler.cpu.calls import LibraryCalls
from lib.compiler.cpu.effects import (
    NO_ROLE,
    CopySite,
    LayoutCopy,
    OffLayoutOperation,
    OperationSite,
    RepeatedOperation,
)
from lib.compiler.cpu.facts import ProgramFacts
from lib.compiler.cpu.loops import Loops
from lib.compiler.cpu.numbering import Numbering, NumberingAtSites
from lib.compiler.graph import TensorGraph
from lib.compiler.orders import Order, same_in_memory, squeezed

UNSET = -1  # no order: the configuration, or the operation, leaves it open
MISFIT = -2  # an order is configured that the tensor cannot have


class OrderTable(Numbering[Order]):
    """Orders of one program's tensors, numbered so that arrays can hold them.

    Attributes:
        plain: (n,) the number of the order that each output has in the program as it stands.
    """

    def __init__(self, graph: TensorGraph):
        super().__init__()
        self._shapes = graph.shapes
        self._mapped: dict[tuple[int, int], int] = {}
        self._places: dict[tuple[int, int], Order] = {}
        self.plain = [self.number(order) for order in graph.plain]

    def numbers_of(self, digits: np.ndarray) -> np.ndarray:
        """Numbers, (...) int64, of layouts as a configuration has them: (..., 6), minor to major.

        ``UNSET`` where no digit is set. Whether a tensor can lie so, :class:`Completion` says, for
        what is set may be a part of an order only.
        """
        flat, places = np.unique(digits.reshape(-1, digits.shape[-1]), axis=0, return_inverse=True)
        numbers = []
        for layout in flat.tolist():
            order = tuple(d for d in layout if d >= 0)
            numbers.append(self.number(order) if order else UNSET)
        return np.array(numbers, np.int64)[places.reshape(digits.shape[:-1])]

    def mapped(self, node: int, number: int, map_order: Callable[[Order], Order]) -> int:
        """The number of ``map_order(order)``, remembered by (node, order)."""
        key = (node, number)
        if key not in self._mapped:
            self._mapped[key] = self.number(map_order(self.items[number]))
        return self._mapped[key]

    def same_in_memory(self, tensor: int, first: int, second: int) -> bool:
        """Whether two orders of a tensor put every element at the same place."""
        return self._in_memory(tensor, first) == self._in_memory(tensor, second)

    def _in_memory(self, tensor: int, number: int) -> Order:
        key = (tensor, number)
        if key not in self._places:
            self._places[key] = squeezed(self.items[number], self._shapes[tensor])
        return self._places[key]


class Completion:
    """From layouts as they are configured to orders of the tensors that they are about.

    Measurements on CPUs name all dimensions. A layout of another rank is about another tensor than
    the one that shapes suggest (which operand is the kernel, features do not say), and is passed
    over.

    Args:
        orders, plain: of the program, and (k, 3) the number of each constrained tensor's order in
            it, ``UNSET`` where there is no tensor.
    """

    def __init__(self, orders: OrderTable, plain: np.ndarray):
        self._orders, self._plain = orders, np.unique(plain)
        self._place = np.searchsorted(self._plain, plain)  # among the distinct ones

    def __call__(self, layouts: np.ndarray) -> np.ndarray:
        """Numbers of orders, (b, k, 3) int64, from those of configured layouts.

        ``UNSET`` where nothing is configured that is about the tensor, and ``MISFIT`` where it
        cannot lie so: the layout names a dimension that it does not have, or one twice.
        """
        count = len(self._plain)
        keys = np.where(layouts >= 0, layouts * count + self._place, UNSET)
        places, distinct = pd.factorize(keys.ravel())
        numbers = [
            UNSET if key == UNSET else self._completed(*divmod(key, count))
            for key in distinct.tolist()
        ]
        return np.array(numbers, np.int64)[places].reshape(keys.shape)

    def _completed(self, number: int, place: int) -> int:
        named, plain = self._orders.items[number], int(self._plain[place])
        plain_order = () if plain == UNSET else self._orders.items[plain]
        if plain == UNSET or len(named) != len(plain_order):
            return UNSET
        return number if set(named) == set(plain_order) else MISFIT


@dataclass(frozen=True, eq=False)
class ProgramTables:
    """A program's facts, and what is numbered as configurations of it are resolved."""

    facts: ProgramFacts
    orders: OrderTable
    loops: Loops
    calls: LibraryCalls
    completion: Completion
    copies: NumberingAtSites[CopySite, LayoutCopy]
    off_layout: NumberingAtSites[OperationSite, OffLayoutOperation]
    repeated: Numbering[RepeatedOperation] = field(default_factory=Numbering)

    @classmethod
    def of(cls, graph: TensorGraph) -> ProgramTables:
        """The facts of a program, and tables that hold its own orders."""
        facts, orders = ProgramFacts.of(graph), OrderTable(graph)
        tensors = np.array([node.tensors for node in facts.constrained], np.int64).reshape(-1, 3)
        plain = np.where(tensors >= 0, np.array([*orders.plain, UNSET])[tensors], UNSET)
        completion, loops = Completion(orders, plain), Loops(facts)
        copies = NumberingAtSites(partial(_copy, loops, orders))
        off_layout = NumberingAtSites(partial(_off_layout, orders))
        return cls(facts, orders, loops, LibraryCalls(facts), completion, copies, off_layout)


def _copy(
    loops: Loops, orders: OrderTable, site: CopySite, old: int, new: int
) -> LayoutCopy | None:
    """The copy between two orders of a tensor; ``None`` if they are the same in memory.

    Through reshapes it is one in parts of dimensions.
    """
    if not site.path:
        same = orders.same_in_memory(site.tensor, old, new)
        return None if same else LayoutCopy(site.tensor, old, new, site.reason, site.reader)
    view = loops.view(site.path)
    before, after = view.orders(orders.items[old], orders.items[new])
    if same_in_memory(before, after, view.sizes):
        return None
    numbers = orders.number(before), orders.number(after)
    return LayoutCopy(site.tensor, *numbers, site.reason, site.reader, site.path)


def _off_layout(
    orders: OrderTable, site: OperationSite, old: int, new: int
) -> OffLayoutOperation | None:
    """The operation that works in an order; ``None`` if that is the program's own in memory."""
    if site.role == NO_ROLE and orders.same_in_memory(site.node, new, orders.plain[site.node]):
        return None
    return OffLayoutOperation(site.node, new, site.role)
