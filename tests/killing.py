"""Commands that are killed at a moment of the test's choosing, which is counted and not timed.

On every machine, however busy, it is the same one. Run as a program, this module is the command:
it counts steps of its training, and changes of files, and kills itself before one of them.
"""

from __future__ import annotations

import importlib
import os
import runpy
import signal
import sys
from collections import Counter
from pathlib import Path

import polars as pl

from tests.interpreter import python
from tests.stages import command, ran

WEIGHTS = ("last.safetensors", "model.safetensors")
# Of a history, which differ from run to run.
TIMES = {"seconds", "validation_seconds", "configurations_per_second"}
CHANGES = ("open", "os.mkdir", "os.remove", "os.rename", "os.rmdir")  # Python tells of them before
WRITING = os.O_WRONLY | os.O_RDWR
# What counts as a step: of a training, or what a trial reports.
STEP = "torch.nn utils clip_grad_norm_"


def run(program: str, *flags: object, step: int = -1, change: int = -1) -> int | None:
    """Run a stage or a command.

    Args:
        program: such as ``02_train.py``, or ``lib.tune``.
        flags: of it.
        step: of its training, from 0, before which it is killed with all that it has started.
        change: of files, from 0, before which it is killed.

    Returns:
        How many changes of files it has made; 0 if all was up to date, None if it was killed.
    """
    line = ["-m", "tests.killing", str(step), str(change), *command(program, *flags)[1:]]
    done = ran([python(), *line])
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    if done.returncode:
        return None
    said = done.stdout.splitlines()[-1]
    return 0 if ": up to date, " in said else int(said)


def main() -> None:
    """Be the command of :func:`run`."""
    step, change, *sys.argv = sys.argv[1:]
    killed_at, taken = {"step": int(step), "change": int(change)}, Counter()

    def take(kind: str) -> None:
        if taken[kind] == killed_at[kind]:
            os.killpg(0, signal.SIGKILL)
        taken[kind] += 1

    def told(event: str, arguments: tuple) -> None:
        if event in CHANGES and (event != "open" or arguments[2] & WRITING):
            take("change")

    is_module = sys.argv[0] == "-m"
    program = sys.argv[is_module]
    module, kind, name = STEP.split()
    owner = getattr(importlib.import_module(module), kind)
    real = getattr(owner, name)
    setattr(owner, name, lambda *given: (take("step"), real(*given))[1])
    os.setpgid(0, 0)
    sys.addaudithook(told)
    if is_module:
        del sys.argv[0]
        runpy.run_module(program, run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(program, run_name="__main__")
    print(taken["change"])


def assert_same_training(one: Path, other: Path) -> None:
    """Both folders of a fold hold the same weights, to the bit, and the same history."""
    for name in WEIGHTS:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name
    histories = [pl.read_parquet(folder / "history.parquet") for folder in (one, other)]
    columns = sorted(set(histories[0].columns) - TIMES)
    assert histories[0].select(columns).equals(histories[1].select(columns))


if __name__ == "__main__":
    main()
