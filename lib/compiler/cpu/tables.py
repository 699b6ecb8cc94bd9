"""Tables that the batches of configurations of one program share: its facts, and numbered things.

Orders, layout copies and other effects are numbered in the order of their first appearance, so
that arrays can hold them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, TypeVar

import numpy as np

from lib.compiler.cpu.calls import LibraryCalls
from lib.compiler.cpu.effects import (
    CopySite,
    LayoutCopy,
    RepeatedOperation,
)
from lib.compiler.cpu.facts import ProgramFacts
from lib.compiler.cpu.loops import Loops
from lib.compiler.graph import TensorGraph
from lib.compiler.orders import Order, same_in_memory

Item = TypeVar("Item", bound=Hashable)
Site = TypeVar("Site", bound=Hashable)

UNSET = -1  # no order: the configuration, or the operation, leaves it open
NOTHING = -1  # the number of a key that yields no item
BITS = 21  # of a key's 63, for a site and for each of two orders; a program has far fewer of either


@dataclass
class Numbering(Generic[Item]):
    """Things that are numbered in the order of their first appearance."""

    items: list[Item] = field(default_factory=list)
    numbers: dict[Item, int] = field(default_factory=dict)

    def number(self, item: Item) -> int:
        """Return the item's number, a new one if the item is new."""
        if item not in self.numbers:
            self.numbers[item] = len(self.items)
            self.items.append(item)
        return self.numbers[item]


class NumberingAtSites(Numbering[Item], Generic[Site, Item]):
    """Things that two orders at a site yield, such as copies of a tensor for a reader.

    Args:
        make: the item of a site and the numbers of two orders, or ``None``.
    """

    def __init__(self, make: Callable[[Site, int, int], Item | None]):
        super().__init__()
        self.sites: Numbering[Site] = Numbering()
        self._make, self._known = make, {}

    def numbers_of(self, keys: np.ndarray) -> np.ndarray:
        """Return the numbers of (m,) keys, ``NOTHING`` for keys that yield no item."""
        import pandas as pd  # late: it takes half a second, and stage 1 alone needs it

        places, distinct = pd.factorize(keys)
        numbers = self._known
        for key in [key for key in distinct.tolist() if key not in numbers]:
            rest, new = divmod(key, 1 << BITS)
            site, old = divmod(rest, 1 << BITS)
            item = self._make(self.sites.items[site], old, new)
            numbers[key] = NOTHING if item is None else self.number(item)
        return np.array([numbers[key] for key in distinct.tolist()], np.int64)[places]


class Occurrences(Generic[Site]):
    """Things, numbered at sites, that the configurations of a batch have.

    They are added a site at a time, and numbered all at once: a program has thousands of sites.
    """

    def __init__(self, numbering: NumberingAtSites[Site, Hashable], configurations: int):
        self._numbering, self._configurations = numbering, configurations
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, site: Site, where: np.ndarray, before: np.ndarray, after: np.ndarray) -> None:
        """Add the thing that two orders yield at a site, for the configurations ``where``.

        All three are (b,), or (1,) if they are the same under all configurations; orders are not
        negative for the configurations ``where``.
        """
        if not where.any():
            return
        key = (self._numbering.sites.number(site) << (2 * BITS)) + (before << BITS) + after
        if len(where) < self._configurations:
            where = np.ones(self._configurations, bool)
        (added,) = where.nonzero()
        self._parts.append((added, key[added] if len(key) > 1 else np.repeat(key, len(added))))

    def all(self) -> np.ndarray:
        """Return (m, 2) int64 pairs [configuration, number]."""
        if not self._parts:
            return np.zeros((0, 2), np.int64)
        configurations, keys = (np.concatenate(side) for side in zip(*self._parts, strict=True))
        numbers = self._numbering.numbers_of(keys)
        kept = numbers != NOTHING
        return np.stack([configurations[kept], numbers[kept]], axis=1)


class OrderTable(Numbering[Order]):
    """Orders of one program's tensors.

    Attributes:
        plain: (n,) the number of each output's order in the program itself.
    """

    def __init__(self, graph: TensorGraph):
        super().__init__()
        self.plain = [self.number(order) for order in graph.plain]

    def numbers_of(self, digits: np.ndarray) -> np.ndarray:
        """Return the numbers, (...) int64, of (..., 6) layouts, minor to major; ``UNSET`` without
        digits.

        A layout may name a part of an order only: :class:`Completion` checks it.
        """
        flat, places = np.unique(digits.reshape(-1, digits.shape[-1]), axis=0, return_inverse=True)
        numbers = []
        for layout in flat.tolist():
            order = tuple(d for d in layout if d >= 0)
            numbers.append(self.number(order) if order else UNSET)
        return np.array(numbers, np.int64)[places.reshape(digits.shape[:-1])]


class Completion:
    """Map from configured layouts to orders of the tensors that they constrain.

    Measurements on CPUs name all dimensions. A layout of another rank belongs to another tensor
    than the one that shapes suggest (features do not say which operand is the kernel), and is
    ignored.

    Args:
        orders: those of the program.
        plain: (k, 3) the number of each constrained tensor's order in the program, ``UNSET``
            without a tensor.
    """

    def __init__(self, orders: OrderTable, plain: np.ndarray):
        self._orders, self._plain = orders, np.unique(plain)
        self._place = np.searchsorted(self._plain, plain)  # among the distinct ones

    def __call__(self, layouts: np.ndarray) -> np.ndarray:
        """Return the numbers of orders, (b, k, 3) int64, for those of configured layouts.

        ``UNSET`` if no layout is configured that the tensor can have.
        """
        import pandas as pd  # late, as above

        count = len(self._plain)
        keys = np.where(layouts >= 0, layouts * count + self._place, UNSET)
        places, distinct = pd.factorize(keys.ravel())
        numbers = []
        for key in distinct.tolist():
            number, place = divmod(key, count)
            plain = int(self._plain[place])
            if UNSET in (key, plain):
                numbers.append(UNSET)
                continue
            named, own = self._orders.items[number], self._orders.items[plain]
            numbers.append(number if sorted(named) == sorted(own) else UNSET)
        return np.array(numbers, np.int64)[places].reshape(keys.shape)


class ProgramTables:
    """A program's facts, and the things that are numbered as its configurations are resolved."""

    def __init__(self, graph: TensorGraph):
        self.facts, self.orders = ProgramFacts(graph), OrderTable(graph)
        tensors = [node.tensors for node in self.facts.constrained]
        places = np.array(tensors, np.int64).reshape(-1, 3)
        plain = np.where(places >= 0, np.array([*self.orders.plain, UNSET])[places], UNSET)
        self.completion, self.loops = Completion(self.orders, plain), Loops(self.facts)
        self.calls = LibraryCalls(self.facts)
        self.copies = NumberingAtSites(partial(_copy, graph, self.loops, self.orders))
        self.off_layout = NumberingAtSites(partial(_off_layout, graph, self.orders))
        self.repeated: Numbering[RepeatedOperation] = Numbering()


def _copy(
    graph: TensorGraph, loops: Loops, orders: OrderTable, site: CopySite, old: int, new: int
) -> LayoutCopy | None:
    """Return the copy between two orders of a tensor; ``None`` if they are the same in memory.

    A copy through reshapes has orders of parts of dimensions.
    """
    before, after, shape = orders.items[old], orders.items[new], graph.shapes[site.tensor]
    if site.path:
        view = loops.view(site.path)
        (before, after), shape = view.orders(before, after), view.sizes
    if same_in_memory(before, after, shape):
        return None
    numbers = orders.number(before), orders.number(after)
    return LayoutCopy(site.tensor, *numbers, site.reason, site.reader, site.path)


def _off_layout(
    graph: TensorGraph, orders: OrderTable, node: int, old: int, new: int
) -> tuple[int, int] | None:
    """Return the operation that works in an order; ``None`` if it is the plain one in memory."""
    plain, shape = graph.plain[node], graph.shapes[node]
    if same_in_memory(orders.items[new], plain, shape):
        return None
    return node, new
