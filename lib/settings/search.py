"""How a setting is searched by ``make tune``: declared beside its default, help and bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Search:
    """What a setting may be in a search.

    Attributes:
        values: one of these; if there are none,
        low, high: a number from ``low`` to ``high``, both of them included,
        logarithmic: drawn evenly by its logarithm.
    """

    values: tuple[Any, ...] = ()
    low: float = 0
    high: float = 0
    logarithmic: bool = False

    def including(self, value: Any) -> Search:
        """The same, with a value in it."""
        if self.values:
            return self if value in self.values else Search((value, *self.values))
        low, high = min(self.low, value), max(self.high, value)
        return Search((), low, high, self.logarithmic and low > 0)


def among(*values: Any) -> Search:
    """One of some values."""
    return Search(values)


def between(low: float, high: float, logarithmic: bool = False) -> Search:
    """A number; whole if the setting is."""
    return Search((), low, high, logarithmic)
