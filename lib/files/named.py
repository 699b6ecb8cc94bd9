"""Objects that systems and settings name, ``module:object``, imported when they are needed.

A table of such names imports none of what it lists. So a program runs only what it uses, and
:mod:`lib.runs.code` finds what results were made from.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any


def named(place: str) -> Any:
    """Return the object of a module, such as ``lib.models.tgraph_plus.network:TGraphPlus``."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


class Named(Mapping[str, Any]):
    """Objects of such a table, by their keys."""

    def __init__(self, places: Mapping[str, str]):
        self.places = places

    def __getitem__(self, name: str) -> Any:
        return named(self.places[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self.places)

    def __len__(self) -> int:
        return len(self.places)
