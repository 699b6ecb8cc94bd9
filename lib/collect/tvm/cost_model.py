"""The predictor as a cost model of MetaSchedule, for ``make search`` and for one's own tuner.

    from lib.collect.tvm.cost_model import trained
    meta_schedule.tune_tir(task, target, "tuned", max_trials_global=64, cost_model=trained("avx2"))

TVM and the predictor are in environments of their own, and exchange messages over pipes, see
:mod:`lib.programs.messages`.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

# Rules of a tuner of one's own may name intrinsics, and TVM asks for them by this import alone. In
# `make search`, whose rules name none, lib.collect.tvm.compiler has left them out before.
import tvm.s_tir.tensor_intrin  # noqa: F401
from tvm.ir.utils import derived_object
from tvm.s_tir import Schedule, meta_schedule

from lib.collect.tvm import raw
from lib.collect.tvm.compiler import hash_of
from lib.files.errors import UserError
from lib.programs.messages import last_words, receive, send
from lib.runs.code import ROOT

PYTHON = Path(".venv/bin/python")  # that has the predictor


@derived_object
class PredictorModel(meta_schedule.cost_model.PyCostModel):
    """A cost model that asks another process, which predicts logarithms of seconds.

    Attributes:
        best: of each task, by its hash: the least prediction, and the schedule that has it.
    """

    def __init__(self, talk: Talk):
        super().__init__()
        self.talk = talk
        self.best: dict[str, tuple[float, Schedule | None]] = {}
        self.known: dict[Schedule, float] = {}  # of schedules that a generation hands to the next

    def load(self, path: str) -> None:
        """Do nothing: the other process keeps all."""

    def save(self, path: str) -> None:
        """Do nothing, as :meth:`load`."""

    def update(self, context, candidates, results) -> None:
        """Send the measured seconds of candidates."""
        seconds = [float(r.run_secs[0]) if r.run_secs else np.nan for r in results]
        schedules = [candidate.sch for candidate in candidates]
        arrays = {**raw.described(schedules), "seconds": np.array(seconds, np.float64)}
        self.talk.tell("measured", {"task": hash_of(context.mod)}, arrays)
        self.known.clear()

    def predict(self, context, candidates) -> np.ndarray:
        """Return (n,) the best predicted time over each candidate's; 0 without a prediction."""
        logs = self.logs(hash_of(context.mod), [candidate.sch for candidate in candidates])
        least = self.best[hash_of(context.mod)][0]
        return np.nan_to_num(np.exp(least - logs), nan=0.0)

    def logs(self, task: str, schedules: Sequence[Schedule]) -> np.ndarray:
        """Return (n,) predictions of schedules of a task; NaN where there is none."""
        if new := [schedule for schedule in schedules if schedule not in self.known]:
            logs = self.talk.tell("predict", {"task": task}, raw.described(new))["logs"]
            self.known = dict(zip(new, logs.tolist(), strict=True)) | {
                schedule: self.known[schedule] for schedule in schedules if schedule in self.known
            }
        logs = np.array([self.known[schedule] for schedule in schedules])
        least = int(np.argmin(np.nan_to_num(logs, nan=np.inf)))
        if logs[least] < self.best.setdefault(task, (np.inf, None))[0]:
            self.best[task] = float(logs[least]), schedules[least]
        return logs


@dataclass
class Talk:
    """Messages to the process with the predictor, and its answers; most are of one task.

    ``reason`` says why the process has ended, if that is known here; ``lock`` is held from a
    message to its answer where several processes talk.
    """

    reading: BinaryIO
    writing: BinaryIO
    task: str = ""
    reason: Callable[[], str] = str
    lock: AbstractContextManager[Any] = field(default_factory=nullcontext)

    def tell(
        self, kind: str, metadata: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Send a message, and return the arrays of the answer.

        Raises:
            UserError: nobody answers any more.
        """
        with suppress(BrokenPipeError), self.lock:
            send(self.writing, {"kind": kind, "task": self.task, **metadata}, arrays)
            if answer := receive(self.reading):
                return answer[1]
        raise UserError(f"the process with the predictor has ended. {self.reason()}".strip())


def standard() -> Talk:
    """Return messages over standard input and output; what TVM prints is not for the other half."""
    talk = Talk(os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    return talk


def trained(
    device: str, outputs: Path = Path("outputs"), python: Path = ROOT / PYTHON, **settings: str
) -> PredictorModel:
    """Return the trained predictor, corrected by what is measured, for a tuner in this process.

    Args:
        device: instruction set, or a device's whole name.
        outputs: where ``make all COLLECTION=programs-cpu`` has put it.
        python: of the environment that has the predictor.
        settings: ``collection``, ``model``, ``experiment``, ``data``: which predictor.

    Raises:
        UserError: there is none, or it knows no such device.
    """
    command = [str(python), "-m", "lib.programs.search.answers", "--device", device]
    for name, value in {"outputs": outputs.resolve(), **settings}.items():
        command += [f"--{name}", str(value)]
    errors = tempfile.TemporaryFile("w+", errors="replace")  # open as long as the process is asked
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": errors}
    child = subprocess.Popen(command, cwd=ROOT, **pipes)

    def reason() -> str:
        """Return the last words of the process, which has ended."""
        code = child.wait()
        errors.seek(0)
        return last_words(code, errors.read())

    if receive(child.stdout) is None:
        raise UserError(reason())
    return PredictorModel(Talk(child.stdout, child.stdin, reason=reason))
