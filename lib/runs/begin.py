"""What a stage imports first: until its work begins, an interruption ends it at once.

The other imports take seconds. An exception in the middle of one is not always told: a library may
drop it and go on without what it did not get. Nothing has been written by then, so that the process
can simply end.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import warnings
from contextlib import AbstractContextManager
from types import FrameType

from lib import INTERRUPTED, INTERRUPTED_CODE, begin_program, told_first


def one_line_errors() -> AbstractContextManager[None]:
    """:func:`lib.files.errors.one_line_errors`; an interruption is a KeyboardInterrupt again."""
    from lib.files import errors  # late, as this is here to be early

    if signal.getsignal(signal.SIGINT) is _end:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    return errors.one_line_errors()


def _end(number: int, frame: FrameType | None) -> None:
    if told_first(INTERRUPTED):
        os.write(2, f"{INTERRUPTED}\n".encode())
    os._exit(INTERRUPTED_CODE)


begin_program()
if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # and not ignored
    signal.signal(signal.SIGINT, _end)

# joblib's, where shared memory is full or files may have no size: one process does all, then, or
# an error's one line says why it cannot.
warnings.filterwarnings("ignore", ".*joblib will operate in serial mode", UserWarning)

# A line is written at once. Unbuffered (PYTHONUNBUFFERED, as containers often have it) its end is
# written by itself, and the line of a fold that trains beside can come between.
if isinstance(sys.stdout, io.TextIOWrapper):
    sys.stdout.reconfigure(line_buffering=True, write_through=False)
