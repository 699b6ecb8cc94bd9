"""Start a script in several processes of this machine, with torchrun; errors stay one line.

    python -m lib.train.torchrun 2 02_train.py --collection layout-xla-default --fold 0

Torchrun itself tells a process that has failed in thirty lines, which has told it in one.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile

from lib import INTERRUPTED_CODE, TOLD
from lib.files.errors import UserError, one_line_errors


def main(count: str, *line: str) -> int:
    """Wait for all processes; the exit code of the one that failed first."""
    if not count.isdecimal() or int(count) < 1:
        raise UserError(f"processes {count!r}: must be a whole number from 1")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # or it tells that it sets it
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    logging.disable(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="tgraph-") as os.environ[TOLD]:
        try:
            run.run(run.parse_args(["--standalone", f"--nproc-per-node={count}", *line]))
        except ChildFailedError as error:
            code = error.get_first_failure()[1].exitcode
            return code if code > 0 else 128 - code
        except SignalException:
            return INTERRUPTED_CODE
    return 0


if __name__ == "__main__":
    with one_line_errors():
        sys.exit(main(*sys.argv[1:]))
