"""The ranges that ``make tune`` searches, declared with a setting's default, help and bounds."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@dataclass(frozen=True)
class Search:
    """The values of a setting in a search.

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
        """Return the same search, with a value in it."""
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


def space_of(settings: DataclassInstance, fixed: Collection[str] = ()) -> dict[str, Search]:
    """Return the searched settings of a model, by name, but for ``fixed`` ones; their own values
    are in the space.
    """
    space = {}
    for setting in dataclasses.fields(settings):
        search = declared(type(settings), setting.name)
        if search and setting.name not in fixed:
            space[setting.name] = search.including(getattr(settings, setting.name))
    return space


def declared(kind: type, name: str) -> Search | None:
    """Return how a setting is searched; a class that declares it anew, with another default, need
    not say it again."""
    for base in kind.__mro__:
        setting = base.__dict__.get("__dataclass_fields__", {}).get(name)
        if setting is not None and setting.metadata.get("search"):
            return setting.metadata["search"]
    return None
