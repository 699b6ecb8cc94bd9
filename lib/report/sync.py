"""``python -m lib.report.sync outputs``: upload the W&B runs that were kept offline.

W&B's own command does it, a run at a time, and marks what it has uploaded. What killed and resumed
runs have left has one id; the resumed one has all of it, and is uploaded alone.
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
    for run in runs:  # a damaged run would keep W&B from the other runs
        subprocess.run([sys.executable, "-m", "wandb", "sync", "--yes", str(run)])
    left = [run for run in runs if not _is_synced(run)]
    print(f"wandb-sync: {len(runs) - len(left)} of {len(runs)} runs uploaded")
    if left:
        raise UserError(
            f"not uploaded: {', '.join(map(str, left))}: W&B says why above; delete what a kill "
            "has damaged, and make wandb-sync again"
        )


def waiting(outputs: Path) -> list[Path]:
    """Folders of offline runs that have not been uploaded, oldest first; of several with one id
    the folder that has most."""
    most: dict[str, tuple[int, Path]] = {}
    for run in sorted((outputs / "wandb").glob("offline-run-*")):
        for file in run.glob("run-*.wandb"):
            size = file.stat().st_size
            if size >= most.get(file.name, (0, run))[0]:
                most[file.name] = (size, run)
    return sorted(run for _, run in most.values() if not _is_synced(run))


def _is_synced(run: Path) -> bool:
    return any(run.glob("*.synced"))


if __name__ == "__main__":
    with one_line_errors():
        main()
