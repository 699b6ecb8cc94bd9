"""A make that a program starts, and that is no part of the make that has started the program."""

from __future__ import annotations

import os

INTERNALS = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES")


def environment_of_make() -> dict[str, str]:
    """This process's environment without what a make tells those below it.

    Make's variables stay: make puts those that it was given into the environment.
    """
    return {name: value for name, value in os.environ.items() if name not in INTERNALS}
