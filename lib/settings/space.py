"""What is searched of a model's settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection

from lib.settings.base import Settings
from lib.settings.search import Search


def space_of(settings: Settings, fixed: Collection[str] = ()) -> dict[str, Search]:
    """What is searched of a model's settings, by field name.

    A field that a subclass declares anew, with another default, is searched as its base class
    says, unless it says otherwise.

    Args:
        settings: whose values are all in the space.
        fixed: names of settings that stay as they are.
    """
    found = {}
    for one in dataclasses.fields(settings):
        search = declared(type(settings), one.name)
        if search and one.name not in fixed:
            found[one.name] = search.including(getattr(settings, one.name))
    return found


def declared(kind: type, name: str) -> Search | None:
    """How a setting of a model's is searched, by whichever base class says so."""
    for base in kind.__mro__:
        one = base.__dict__.get("__dataclass_fields__", {}).get(name)
        if one is not None and one.metadata.get("search"):
            return one.metadata["search"]
    return None
