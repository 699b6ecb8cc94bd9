"""``python -m tests.peak SCRIPT FLAGS``: a stage script, and then the bytes that it took at most.

What was imported before does not count, nor, as in ``ru_maxrss``, the process that started it.
"""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path


def bytes_of(kind: str) -> int:
    """Memory of this process: ``VmRSS`` now, ``VmHWM`` at most."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(rf"{kind}:\s*(\d+) kB", status)[1]) * 1024


if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    Path("/proc/self/clear_refs").write_text("5")
    before = bytes_of("VmRSS")
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        print("peak", bytes_of("VmHWM") - before)
