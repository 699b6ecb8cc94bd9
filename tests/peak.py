"""``python -m tests.peak SCRIPT FLAGS``: a stage script, and then the bytes that it took at most.

What was imported before does not count.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from lib.runs.stage import peak_memory

if __name__ == "__main__":
    sys.argv = sys.argv[1:]
    Path("/proc/self/clear_refs").write_text("5")  # at most is what it is now
    before = peak_memory()
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    finally:
        print("peak", peak_memory() - before)
