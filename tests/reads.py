"""How often a program opens files of some names: what it does, and then a line for each.

python -m tests.reads dataset.json,mine.toml 02_train.py --collection layout-xla-default ...
"""

from __future__ import annotations

import os
import runpy
import sys
from collections import Counter
from pathlib import Path

if __name__ == "__main__":
    names, program = sys.argv[1].split(","), sys.argv[2]
    opened: Counter[str] = Counter()

    def count(event: str, about: tuple) -> None:
        """What Python tells of each file that is opened (and of what it calls for that)."""
        if event == "open" and about[1] and isinstance(about[0], str | bytes | os.PathLike):
            opened[Path(os.fsdecode(about[0])).name] += 1

    sys.addaudithook(count)
    sys.argv = sys.argv[2:]
    runpy.run_path(program, run_name="__main__")
    print("opened:", *(f"{name}={opened[name]}" for name in names))
