"""Everything that the stages run."""

import io
import re
import sys
import warnings
from pathlib import Path

INTERRUPTED, INTERRUPTED_CODE = "interrupted; run the same command again to go on", 130
STAGE = re.compile(r"0\d_\w+\.py")


def begin_program() -> None:
    """Set a process up, before the imports that take seconds and may fail.

    From then on an error that nothing catches is one line, if a user can mend it.
    """
    sys.excepthook = _one_line
    # joblib says this where shared memory is full: one process does all then, or an error says why.
    warnings.filterwarnings("ignore", ".*joblib will operate in serial mode", UserWarning)
    # A line is written at once. Unbuffered (PYTHONUNBUFFERED, as containers often have it) its end
    # is written by itself, and another fold's line can come between. And what an encoding lacks
    # (a terminal in Latin-9 has no tau) is written out.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True, write_through=False, errors="backslashreplace")


def _one_line(kind, error, trace) -> None:
    """Python calls it with an error that nothing has caught, such as one during imports."""
    from lib.files.errors import exit_because_of  # late, for it takes a while

    exit_because_of(error)
    sys.__excepthook__(kind, error, trace)


# Of a stage, or as Python has it while it looks for `python -m lib...`.
if sys.argv[:1] == ["-m"] or (sys.argv and STAGE.fullmatch(Path(sys.argv[0]).name)):
    begin_program()
