"""``python -m lib.report.sync outputs``: upload the W&B runs that were kept offline.

W&B's own command does it, and marks what it has uploaded; the pieces of a fold that was killed
and resumed have one id and become one run.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.runs.tracking import has_key


def main() -> None:
    """Upload every offline run below a folder of outputs; those uploaded before are skipped."""
    parser = Parser(prog="python -m lib.report.sync", description=__doc__)
    parser.add_argument("outputs", type=Path)
    outputs = parser.parse_args().outputs
    runs = waiting(outputs)
    if not runs:
        print(f"wandb-sync: nothing to upload in {outputs}/wandb")
        return
    if not has_key():
        raise UserError(
            f"{len(runs)} runs wait in {outputs}/wandb, but there is no key: set WANDB_API_KEY, or "
            f"run {Path(sys.executable).parent}/wandb login"
        )
    done = subprocess.run([sys.executable, "-m", "wandb", "sync", "--yes", *map(str, runs)])
    if done.returncode:
        raise UserError(f"wandb sync ended with code {done.returncode}; the runs are still there")
    print(f"wandb-sync: {len(runs)} runs uploaded")


def waiting(outputs: Path) -> list[Path]:
    """Folders of offline runs that have not been uploaded, oldest first."""
    runs = sorted((outputs / "wandb").glob("offline-run-*"))
    return [run for run in runs if not list(run.glob("*.synced"))]


if __name__ == "__main__":
    with one_line_errors():
        main()
