"""Numbers for what is met while configurations are resolved, so that arrays can hold it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import numpy as np
import pandas as pd

Item = TypeVar("Item", bound=Hashable)
Site = TypeVar("Site", bound=Hashable)

NOTHING = -1  # the number of what comes to nothing
BITS = 21  # of a key's 63, for a site and for each of two orders; a program has far fewer of either


@dataclass
class Numbering(Generic[Item]):
    """Things that are numbered in the order of their first appearance."""

    items: list[Item] = field(default_factory=list)
    numbers: dict[Item, int] = field(default_factory=dict)

    def number(self, item: Item) -> int:
        """The item's number, a new one if it is new."""
        if item not in self.numbers:
            self.numbers[item] = len(self.items)
            self.items.append(item)
        return self.numbers[item]


class NumberingAtSites(Numbering[Item], Generic[Site, Item]):
    """Things that come of two orders at a site, such as copies of a tensor for a reader.

    Args:
        make: from a site and the numbers of two orders; ``None`` if they come to nothing.
    """

    def __init__(self, make: Callable[[Site, int, int], Item | None]):
        super().__init__()
        self.sites: Numbering[Site] = Numbering()
        self._make, self._known = make, {}

    def numbers_of(self, keys: np.ndarray) -> np.ndarray:
        """The numbers of (m,) keys, ``NOTHING`` of those that come to nothing."""
        places, distinct = pd.factorize(keys)
        numbers = self._known
        for key in [key for key in distinct.tolist() if key not in numbers]:
            numbers[key] = self._numbered(key)
        return np.array([numbers[key] for key in distinct.tolist()], np.int64)[places]

    def _numbered(self, key: int) -> int:
        rest, new = divmod(key, 1 << BITS)
        site, old = divmod(rest, 1 << BITS)
        item = self._make(self.sites.items[site], old, new)
        return NOTHING if item is None else self.number(item)


class Occurrences(Generic[Site]):
    """Which of a batch's configurations have which of some things that are numbered at sites.

    They are noted a site at a time, and numbered all at once: a program has thousands of sites.
    """

    def __init__(self, numbering: NumberingAtSites[Site, Hashable], configurations: int):
        self._numbering, self._configurations = numbering, configurations
        self._parts: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, site: Site, where: np.ndarray, before: np.ndarray, after: np.ndarray) -> None:
        """Note what two orders come to at a site, for the configurations ``where``.

        All three are (b,), or (1,) if they are the same under all; orders are not negative where
        ``where`` is true.
        """
        if not where.any():
            return
        key = (self._numbering.sites.number(site) << (2 * BITS)) + (before << BITS) + after
        if len(where) < self._configurations:
            where = np.ones(self._configurations, bool)
        (noted,) = where.nonzero()
        self._parts.append((noted, key[noted] if len(key) > 1 else np.repeat(key, len(noted))))

    def all(self) -> np.ndarray:
        """(m, 2) int64 pairs [configuration, number]."""
        if not self._parts:
            return np.zeros((0, 2), np.int64)
        configurations, keys = (np.concatenate(side) for side in zip(*self._parts, strict=True))
        numbers = self._numbering.numbers_of(keys)
        noted = numbers != NOTHING
        return np.stack([configurations[noted], numbers[noted]], axis=1)
