"""``make clean``: list what goes, what it cost and who shares it; delete it.

    python3 -SEB -m lib.runs.clean outputs/layout-xla-default [--confirm]

Only the standard library is needed. Trained weights go with ``--confirm`` alone.
"""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import suppress
from pathlib import Path

from lib.files.errors import UserError, one_line_errors
from lib.files.terminal import duration


def main(folder: Path, confirmed: bool) -> None:
    """Delete a folder of results.

    Raises:
        UserError: it has trained weights, and the user has not confirmed.
    """
    if not folder.exists():
        print(f"clean: {folder}: nothing there")
        return
    for path in sorted(folder.iterdir()):
        files = [path, *path.rglob("*")]
        size = sum(file.lstat().st_size for file in files if file.is_file())
        shared = sorted(one.name for one in folder.parent.glob(f"{folder.name}[@+]*"))
        users = f", read by {', '.join(shared)}" if path.name.startswith("cache") and shared else ""
        print(f"clean: {path}: {size / 1e6:.1f} MB{users}", flush=True)
    weights = [*folder.glob("fold_*/*.safetensors")]
    if weights and not confirmed:
        seconds = sum(map(_seconds, folder.glob("stages/train_*.json")))
        raise UserError(
            f"{folder}: has trained weights of {len({path.parent for path in weights})} folds "
            f"({duration(seconds)} of training); make clean CONFIRM=1 deletes all of it"
        )
    shutil.rmtree(folder)


def _seconds(record: Path) -> float:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return float(json.loads(record.read_text())["seconds"])
    return 0.0


if __name__ == "__main__":
    with one_line_errors():
        main(Path(sys.argv[1]), "--confirm" in sys.argv[2:])
