"""A command on a node: run where the engine puts it, and gone when its worker is."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lib.files.children import end_with_parent

MOST_TAIL = 1 << 16  # bytes of a log that are looked at for its last line


@dataclass(frozen=True)
class Task:
    """The command that makes one target.

    Attributes:
        target: the file that it makes, which names it.
        command: words, as make would run them.
        folder: where to run it: the repository, which all nodes see under one name.
        environment: variables that are set on top of the node's.
        logs: a folder that all nodes see; each attempt writes what is printed to a file of its own.
        cpus, gpus: that the node sets aside.
        attempt: counts from 1.
    """

    target: str
    command: tuple[str, ...]
    folder: str
    environment: dict[str, str]
    logs: str
    cpus: int
    gpus: float
    attempt: int = 1

    def __call__(self) -> int:
        """Run the command on this node; the exit code, or minus the signal that killed it."""
        log = Path(self.logs, f"{self.attempt}-{os.uname().nodename}.log")
        log.parent.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, **self.environment}
        environment.pop("TGRAPH_GPU_TURNS", None)  # (lib/runs/turns.py) a task has its own GPUs
        if not self.gpus:  # set aside for it: it would take the GPU of another task
            environment["CUDA_VISIBLE_DEVICES"] = ""
        with open(log, "ab") as output:
            done = subprocess.run(
                self.command,
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                preexec_fn=end_with_parent,
            )
        return done.returncode

    def checkpoint(self) -> Any:
        """What Slurm puts in the queue again when it takes the node away: the same once more.

        A stage goes on from what it has saved. (submitit calls this, see its documentation.)
        """
        from submitit.helpers import DelayedSubmission

        return DelayedSubmission(self)

    def node(self) -> str:
        """Where this attempt runs; empty as long as it waits for a node."""
        return next((log.stem.partition("-")[2] for log in self._own_logs()), "")

    def last_line(self) -> str:
        """The last thing that this attempt has printed: a stage's result, or its error."""
        for log in self._own_logs():
            with open(log, "rb") as file:
                file.seek(max(0, log.stat().st_size - MOST_TAIL))
                lines = file.read().decode(errors="replace").strip().splitlines()
            if lines:
                return lines[-1]
        return ""

    def _own_logs(self) -> list[Path]:
        """Logs of this attempt, newest first: Slurm itself may run it on several nodes in turn."""
        logs = Path(self.logs).glob(f"{self.attempt}-*.log")
        return sorted(logs, key=lambda log: log.stat().st_mtime_ns, reverse=True)
