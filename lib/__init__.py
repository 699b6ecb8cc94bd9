"""All that the stages do."""

import os
import resource
import sys
import zlib
from pathlib import Path

INTERRUPTED, INTERRUPTED_CODE = "interrupted; run the same command again to go on", 130
TOLD = "TGRAPH_TOLD"  # of the environment of processes that run the same: a folder of all of them
LEAST_ADDRESS_SPACE = 2 << 30  # bytes; with less, libraries abort, or wait for ever (OpenBLAS)


def told_first(line: str) -> bool:
    """Whether to tell a line: of several processes that run the same, one does."""
    folder = os.environ.get(TOLD)
    try:
        if folder:
            Path(folder, f"{zlib.crc32(line.encode(errors='replace')):08x}").mkdir()
    except FileExistsError:
        return False
    except OSError:
        pass  # better twice than not at all
    return True


def _tell(kind, error, trace) -> None:
    """What Python calls with an error that nothing has caught, such as one during imports."""
    from lib.files.errors import exit_because_of  # late, for it takes a while

    exit_because_of(error)
    sys.__excepthook__(kind, error, trace)


def begin_program() -> None:
    """What a program of ours does first: before the imports that take seconds, and may fail.

    From then on an error that nothing catches is one line, if a user can mend it.
    """
    sys.excepthook = _tell
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if 0 <= allowed < LEAST_ADDRESS_SPACE:
        print(
            f"error: ulimit -v {allowed >> 10} is too small: at least {LEAST_ADDRESS_SPACE >> 10} "
            f"(kB), or `unlimited`, are needed",
            file=sys.stderr,
        )
        sys.exit(2)


if sys.argv[:1] == ["-m"]:  # as Python has it while it looks for `python -m lib...`
    begin_program()
