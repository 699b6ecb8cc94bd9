"""A training that stands still, once, when it is about to save its state for the third time.

    python -m tests.cluster.standing MARK 02_train.py --collection ...

leaves the file ``MARK`` when it does. It sleeps and is not stopped: a stopped process that loses
its parent may be woken by the kernel (SIGCONT, setpgid(2)).
"""

from __future__ import annotations

import os
import runpy
import sys
import time
from pathlib import Path

SAVED = 3
SECONDS = 240  # that anything may take


def main() -> None:
    """Be the training."""
    mark, *sys.argv = sys.argv[1:]
    saved = 0

    def about_to(event: str, arguments: tuple) -> None:
        nonlocal saved
        if event == "os.rename" and os.fspath(arguments[1]).endswith("/fold_0/state.safetensors"):
            saved += 1
            if saved == SAVED and not Path(mark).exists():
                Path(mark).touch()
                time.sleep(SECONDS)

    sys.addaudithook(about_to)
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
