"""The predictor as a cost model of MetaSchedule, for ``make search`` and for one's own tuner.

    from lib.collect.tvm.cost_model import trained
    meta_schedule.tune_tir(task, target, "tuned", max_trials_global=64, cost_model=trained("avx2"))

TVM and the predictor are in environments of their own, and exchange messages over pipes, see
:mod:`lib.programs.messages`.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
    """A cost model that asks another process, which predicts logarithms of seconds."""

    def __init__(self, talk: Talk):
        super().__init__()
        self.talk, self.best = talk, {}

    def load(self, path: str) -> None:
        """Do nothing: the other process keeps all."""

    def save(self, path: str) -> None:
        """Do nothing, as :meth:`load`."""

    def update(self, context, candidates, results) -> None:
        """Send the measured seconds of candidates."""
        seconds = [float(r.run_secs[0]) if r.run_secs else np.nan for r in results]
        schedules = [candidate.sch for candidate in candidates]
        arrays = {**described(schedules), "seconds": np.array(seconds, np.float64)}
        self.talk.tell("measured", {"task": hash_of(context.mod)}, arrays)

    def predict(self, context, candidates) -> np.ndarray:
        """Return (n,) the best predicted time over each candidate's; 0 without a prediction."""
        task, arrays = hash_of(context.mod), described([candidate.sch for candidate in candidates])
        logs = self.talk.tell("predict", {"task": task}, arrays)["logs"]
        self.best[task] = min(self.best.get(task, np.inf), np.nanmin(logs, initial=np.inf))
        return np.nan_to_num(np.exp(self.best[task] - logs), nan=0.0)


@dataclass
class Talk:
    """Messages to the process with the predictor, and its answers; most are of one task.

    ``reason`` says why the process has ended, if that is known here.
    """

    reading: BinaryIO
    writing: BinaryIO
    task: str = ""
    reason: Callable[[], str] = str

    def tell(
        self, kind: str, metadata: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> dict[str, np.ndarray]:
        """Send a message, and return the arrays of the answer.

        Raises:
            UserError: nobody answers any more.
        """
        with suppress(BrokenPipeError):
            send(self.writing, {"kind": kind, "task": self.task, **metadata}, arrays)
            if answer := receive(self.reading):
                return answer[1]
        raise UserError(f"the process with the predictor has ended. {self.reason()}".strip())


def described(schedules: Sequence[Schedule]) -> dict[str, np.ndarray]:
    """Return arrays of programs, as a predictor reads them."""
    nothing = [""] * len(schedules)
    return raw.described(list(schedules), nothing, nothing)


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
