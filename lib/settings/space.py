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
    space = {}
    for setting in dataclasses.fields(settings):
        search = declared(type(settings), setting.name)
        if search and setting.name not in fixed:
            space[setting.name] = search.including(getattr(settings, setting.name))
    return space


def declared(kind: type, name: str) -> Search | None:
    """How a setting of a model's is searched, by whichever base class says so."""
    for base in kind.__mro__:
        setting = base.__dict__.get("__dataclass_fields__", {}).get(name)
        if setting is not None and setting.metadata.get("search"):
            return setting.metadata["search"]
    return None
