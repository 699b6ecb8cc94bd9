"""Command lines: flags are taken as they are written, and a wrong one is an error of one line."""

from __future__ import annotations

import argparse
import sys
from typing import Any, NoReturn

from lib.files.errors import UserError


class Parser(argparse.ArgumentParser):
    """A parser that raises a :class:`UserError` where argparse prints its usage and exits."""

    def __init__(self, **options: Any):
        if spec := sys.modules["__main__"].__spec__:  # run by -m: the file's name cannot be typed
            options = {"prog": f"python -m {spec.name.removesuffix('.__main__')}", **options}
        # A shortened `--mod` would choose another folder than Make, which reads whole names.
        super().__init__(**options, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Raise what is wrong with a flag as an error of one line."""
        raise UserError(f"{message}; {self.prog} --help names the flags")


def check_least(args: argparse.Namespace, **least: int) -> None:
    """Raise a :class:`UserError` for a flag whose number is below its least; it may be ``None``."""
    for name, bound in least.items():
        value = getattr(args, name)
        if value is not None and value < bound:
            raise UserError(f"--{name.replace('_', '-')} {value}: must be at least {bound}")
