"""Weights & Biases: a run per stage and fold, grouped by experiment.

W&B decides how runs are kept: by its own settings (``wandb offline``, ``WANDB_MODE``), else online
if it finds a key or token, else offline. Whatever goes wrong here is one warning, and the stage
goes on; its run is kept offline if the server does not answer, or refuses the key.
"""

from __future__ import annotations

import math
import os
import re
import secrets
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import wandb

PROJECT = "tgraph"
TIME = "time"  # a section of seconds and the like, which are kept and not drawn
INIT_SECONDS = 10  # how long a server that does not answer may keep a stage from starting
MODES = ("online", "offline", "disabled", "shared", "dryrun", "run")  # that WANDB_MODE can have
# Of `wandb agent`, which hands one run's identity to whatever it starts: stages have runs each.
OF_A_SWEEP = ("WANDB_RUN_ID", "WANDB_SWEEP_ID", "WANDB_SWEEP_PARAM_PATH")
RETRIES = 4  # of an upload; the rest stays on disk, for `make wandb-sync`


class Tracker:
    """A W&B run.

    Args:
        bests: of curves by ``epoch``, whether their highest (``max``) or lowest (``min``) value is
            what the run is compared by.
        announces: whether it says so if runs are kept offline.
        arguments: of ``wandb.init``. Equal values of ``id`` are one run, so that a resumed stage
            goes on with its own; ``dir`` is where runs are kept on disk.
    """

    def __init__(
        self, bests: Mapping[str, str] | None = None, announces: bool = False, **arguments: Any
    ):
        self.bests, self.announces = dict(bests or {}), announces
        project = os.environ.get("WANDB_PROJECT") or PROJECT
        self.arguments = {"project": project, "resume": "allow", "tags": [], **arguments}
        self.run: Any = None  # a wandb.Run, which is imported late

    def start(self) -> Tracker:
        """Begin the run, unless ``WANDB_MODE=disabled``, which does not even import W&B."""
        mode = os.environ.get("WANDB_MODE")
        if mode and mode not in MODES:
            expected = "must be online, offline or disabled"
            print(f"warning: WANDB_MODE={mode}: {expected}; W&B is off", file=sys.stderr)
        elif mode != "disabled":
            self._attempt(self._start, begins=True)
        return self

    def log(self, values: Mapping[str, Any]) -> None:
        """Log one point; its ``epoch`` is its place on the axis, which grows by whole numbers (but
        for a last part).

        The place is W&B's step too: what a killed run had logged and its successor computes
        again has a step that is taken, and is dropped.
        """
        step = math.ceil(values["epoch"])
        self._attempt(lambda: self.run.log(dict(values), step=step))

    def page(self, name: str, path: Path) -> None:
        """Log an HTML file, to be read in the dashboard."""
        self._attempt(lambda: self.run.log({name: wandb_page(path)}))

    def artifact(self, name: str, kind: str, *paths: Path) -> None:
        """Keep files with the run, as an artifact of its own name."""
        self._attempt(lambda: self.run.log_artifact(wandb_artifact(name, kind, paths)))

    def summarize(self, values: Mapping[str, Any]) -> None:
        """Set the run's final numbers."""
        self._attempt(lambda: self.run.summary.update(dict(values)))

    def finish(self, failed: bool = False) -> None:
        """End the run."""
        self._attempt(lambda: self.run.finish(exit_code=int(failed)))
        self.run = None

    def _start(self) -> None:
        folder = Path(self.arguments["dir"])
        folder.mkdir(parents=True, exist_ok=True)
        # Artifacts wait for their upload, and logs are written, next to the runs and not in the
        # user's home, which may be full or read-only.
        for name, part in {"DATA": "staging", "CACHE": "cache"}.items():
            os.environ.setdefault(f"WANDB_{name}_DIR", str((folder / "wandb" / part).resolve()))
        if sweep := os.environ.get("WANDB_SWEEP_ID"):
            self.arguments["tags"].append(f"sweep-{sweep}")
        for name in OF_A_SWEEP:
            os.environ.pop(name, None)
        mode, why = mode_of_runs()
        if mode == "offline" and self.announces:
            print(f"W&B: offline, {why}; `make wandb-sync` uploads the runs in {folder}/wandb")
        try:
            self.run = self._init(mode)
        except Exception as error:
            if mode != "online":
                raise
            self.run = self._init_otherwise(error)
        self.run.define_metric("epoch", hidden=True)
        for section in ("train", "validation", TIME):
            self.run.define_metric(f"{section}/*", step_metric="epoch", hidden=section == TIME)
        for name, best in self.bests.items():
            self.run.define_metric(name, step_metric="epoch", summary=best)

    def _init(self, mode: str) -> wandb.Run:
        import wandb  # late: it takes a second, and nothing when tracking is off

        quiet = wandb.Settings(
            silent=True,
            console="off",
            init_timeout=INIT_SECONDS,
            x_graphql_retry_max=RETRIES,
            x_file_stream_retry_max=RETRIES,
            x_file_transfer_retry_max=RETRIES,
        )
        return wandb.init(mode=mode, settings=quiet, **self.arguments)  # type: ignore[arg-type]

    def _init_otherwise(self, error: Exception) -> wandb.Run:
        """Begin the run under another id if its own was deleted; else keep it on disk."""
        import wandb

        wandb.teardown()  # or the run's id would be in use
        if "previously created and deleted" in str(error):
            self.arguments["id"] += f"-{secrets.token_hex(2)}"
            return self._init("online")
        refused = re.search(r"\b40[13]\b|permission denied|unauthori[sz]ed", str(error), re.I)
        what = "does not accept the key" if refused else "does not answer"
        kept = f"the run is kept in {self.arguments['dir']}/wandb for `make wandb-sync`"
        print(f"warning: W&B {what}, {kept}: {_first_line(error)}", file=sys.stderr)
        return self._init("offline")

    def _attempt(self, action: Callable[[], object], begins: bool = False) -> None:
        if self.run is None and not begins:
            return
        try:
            action()
        except Exception as error:
            self.run = None
            warning = f"warning: W&B is off for the rest of this stage: {_first_line(error)}"
            print(warning, file=sys.stderr)


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]


def wandb_page(path: Path) -> wandb.Html:
    """Return an HTML file for W&B, as it is."""
    import wandb

    return wandb.Html(path.read_text("utf-8"), inject=False)


def wandb_artifact(name: str, kind: str, paths: Sequence[Path]) -> wandb.Artifact:
    """Return files for W&B, whose names have letters, digits, dots and dashes only."""
    import wandb

    artifact = wandb.Artifact(re.sub(r"[^\w.-]", "-", name, flags=re.ASCII), type=kind)
    for path in paths:
        artifact.add_file(str(path))
    return artifact


def epoch_point(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a training's history as a point to log: ``train/...`` and ``validation/...``
    by ``epoch``, so that the folds of a group overlay. How long it took, and how fast it was, are
    in ``time/...``, which W&B draws no panels of by itself.
    """
    point = {}
    for key, value in row.items():
        if key.endswith(("second", "seconds")):
            place = f"{TIME}/{key}"
        elif key.startswith("validation_"):
            place = key.replace("_", "/", 1)
        else:
            place = key if key == "epoch" else f"train/{key}"
        point[place] = value
    return point


def mode_of_runs() -> tuple[str, str]:
    """Return how W&B keeps runs, and why: as its settings say, or else online if it finds a key
    or token for its server, wherever it looks for one."""
    import wandb  # late: it takes a second
    from wandb.sdk.lib import wbauth

    if os.environ.get("WANDB_MODE") == "":
        del os.environ["WANDB_MODE"]  # which W&B refuses
    settings = wandb.setup().settings
    if settings.mode != "online" or "WANDB_MODE" in os.environ:
        return settings.mode, "as W&B's settings say"
    find, host = wbauth.authenticate_session, settings.base_url
    if find(host=host, source="tgraph", prompt=False, update_session=False) is not None:
        return "online", "W&B has a key"
    return "offline", f"no key for {host} (`wandb login` saves one)"
