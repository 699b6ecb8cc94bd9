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
from lib.files.terminal import printable
from lib.runs.tracking import has_key

SECONDS = 300  # for one run
ADVICE = {  # by what W&B says
    "previously created and deleted": (
        "its run was deleted on the server (409); "
        "wandb sync --id NEW FOLDER uploads it as another, or delete the folder"
    ),
    "401": "the server refuses the key (401); wandb login saves another",
}


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
    left = {run: why for run in runs if (why := upload(run))}  # one by one: some may be damaged
    print(f"wandb-sync: {len(runs) - len(left)} of {len(runs)} runs uploaded")
    if left:
        whys = "; ".join(f"{run}: {why}" for run, why in left.items())
        raise UserError(f"not uploaded: {whys}")


def upload(run: Path) -> str:
    """Upload a run; returns why it is not uploaded, or nothing."""
    command = [sys.executable, "-m", "wandb", "sync", "--yes", str(run)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {SECONDS} s; make wandb-sync again tries again"
    if _is_synced(run):
        return ""
    said = done.stdout + done.stderr
    known = (advice for words, advice in ADVICE.items() if words in said)
    lines = said.strip().splitlines()
    last = printable(lines[-1].strip())[:200] if lines else f"exit code {done.returncode}"
    return next(known, f"W&B says: {last}; delete what a kill has damaged")


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
