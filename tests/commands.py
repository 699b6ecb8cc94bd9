"""Running a helper command, such as ``python -m lib.scoring.merge``, in this process."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable
from dataclasses import dataclass

from lib.files.errors import one_line_errors


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it said."""

    returncode: int
    stdout: str
    stderr: str


def call(main: Callable[[list[str]], None], *flags: object) -> Said:
    """Run a command's ``main`` as its module does when it is run."""
    out, err, code = io.StringIO(), io.StringIO(), 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            with one_line_errors():
                main([str(flag) for flag in flags])
        except SystemExit as exit:
            code = int(exit.code or 0)
    return Said(code, out.getvalue(), err.getvalue())
