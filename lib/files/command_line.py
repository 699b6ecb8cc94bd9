"""Command lines: flags are taken as they are written, and a wrong one is told in one line."""

from __future__ import annotations

import argparse
from typing import Any, NoReturn

from lib.files.errors import UserError


class Parser(argparse.ArgumentParser):
    """A parser that raises a :class:`UserError` where argparse prints its usage and exits."""

    def __init__(self, **about: Any):
        # A shortened `--mod` would choose another folder than Make, which reads whole names.
        super().__init__(**about, allow_abbrev=False)

    def error(self, message: str) -> NoReturn:
        """Tell what is wrong with a flag in one line, as every other error is told."""
        raise UserError(f"{message}; {self.prog} --help names the flags")
