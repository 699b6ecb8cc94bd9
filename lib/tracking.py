"""Weights & Biases: a run per fold and stage, grouped by collection; offline without a key.

Tracking is an extra: whatever goes wrong in it is one warning, and the stage goes on.
"""

from __future__ import annotations

import netrc
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

PROJECT = "tgraph"


class Tracker:
    """A W&B run as a context manager.

    Args:
        job_type: the stage: ``preprocess``, ``train``, ``infer`` or ``ensemble``.
        collection: the runs of a collection are one group.
        name: the run's name within its group; with ``identity`` it makes the run's id, so that a
            resumed stage continues its run.
        identity: hexadecimal digits of what the run depends on.
        config: settings, fingerprints and versions.
        folder: where offline runs are kept.
    """

    def __init__(
        self,
        job_type: str,
        collection: str,
        name: str,
        identity: str,
        config: Mapping[str, Any],
        folder: Path,
    ):
        self.about = {
            "project": PROJECT,
            "job_type": job_type,
            "group": collection,
            "name": f"{collection}-{name}",
            "id": f"{collection}-{name}-{identity[:12]}",
            "config": dict(config),
            "dir": str(folder),
            "resume": "allow",
        }
        self.run: Any = None

    def __enter__(self) -> Tracker:
        mode = os.environ.get("WANDB_MODE") or ("online" if _has_key() else "offline")
        if mode != "disabled":
            self._attempt(self._start, mode)
        return self

    def log(self, values: Mapping[str, Any]) -> None:
        """Log one epoch's values; they must have an ``epoch``, which is the axis."""
        if self.run is not None:
            self._attempt(self.run.log, dict(values))

    def summarize(self, values: Mapping[str, Any]) -> None:
        """Set the run's final numbers."""
        if self.run is not None:
            self._attempt(self.run.summary.update, dict(values))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.run is not None:
            self._attempt(self.run.finish, exit_code=0 if kind is None else 1)

    def _start(self, mode: str) -> None:
        import wandb  # late: it takes a second, and nothing when tracking is off

        Path(self.about["dir"]).mkdir(parents=True, exist_ok=True)
        quiet = wandb.Settings(silent=True, console="off")
        self.run = wandb.init(mode=mode, settings=quiet, **self.about)
        self.run.define_metric("epoch")
        self.run.define_metric("*", step_metric="epoch")

    def _attempt(self, action: Any, *args: Any, **keywords: Any) -> None:
        try:
            action(*args, **keywords)
        except Exception as error:
            self.run = None
            first = (str(error).splitlines() or [type(error).__name__])[0]
            print(f"warning: W&B is off for the rest of this stage: {first}", file=sys.stderr)


def _has_key() -> bool:
    if os.environ.get("WANDB_API_KEY"):
        return True
    try:
        return netrc.netrc().authenticators("api.wandb.ai") is not None
    except (OSError, netrc.NetrcParseError):
        return False
