"""The clock's word on what was ranked: configurations of a module, timed on this machine.

XLA compiles and runs in the environment of ``make collect``, as a process of its own
(``lib/collect/xla/timed.py``): modules go there in files, and rounds come back in one.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from lib.files.errors import UserError
from lib.files.schema import expect
from lib.ranking.rounds import label, noise_of
from lib.settings.resolved import ROOT
from lib.tpugraphs.constrain import constrained
from lib.tpugraphs.program import Program

COMMAND = ("-m", "lib.collect.xla.timed")
ROUNDS = "rounds.json"


SURE = 2.0  # times the noise: a difference below that may be chance
REFUSED = "XLA refuses it, or it computes something else"


@dataclass(frozen=True)
class Timings:
    """Runtimes of configurations and of the compiler's own choice, in nanoseconds.

    Attributes:
        of: of those that were timed, by position; ``None`` if XLA refuses one, ends on it, or it
            computes something else.
        compilers_own: of the compiler's own choice.
        noise: by how much two timings of one configuration differ, as a share.
    """

    of: dict[int, int | None]
    compilers_own: int
    noise: float

    @property
    def fastest(self) -> list[int]:
        """The configurations that ran, fastest first."""
        times = {config: time for config, time in self.of.items() if time is not None}
        return sorted(times, key=times.__getitem__)

    def within_noise(self, config: int) -> bool | None:
        """Return whether a configuration differs from the compiler's own choice by so little that
        it may be chance; ``None`` if it was not timed, or did not run."""
        time = self.of.get(config)
        return None if time is None else abs(self.compilers_own / time - 1) < SURE * self.noise

    def words(self, config: int) -> str:
        """Return what the clock says of a configuration."""
        time = self.of[config]
        return REFUSED if time is None else f"timed {time / 1e6:.3f} ms, {self._gain(config)}"

    def summary(self, ranks: np.ndarray) -> str:
        """Return what came of it, in a line; ``ranks`` are of all configurations."""
        text = f"timed: the compiler's own choice takes {self.compilers_own / 1e6:.3f} ms"
        if self.fastest:
            best = self.fastest[0]
            text += f"; the fastest of {len(self.fastest)} is configuration {best} "
            text += f"(#{ranks[best]}), {self._gain(best)}"
        return f"{text}; two timings of one differ by {self.noise:.1%}"

    def _gain(self, config: int) -> str:
        gain = self.compilers_own / self.of[config] - 1  # type: ignore[operator]
        text = f"{abs(gain):.1%} {'faster' if gain >= 0 else 'slower'} than the compiler's own"
        return f"{text}, within noise" if self.within_noise(config) else text


def check_timeable(program: Program, hardware: str, python: Path) -> None:
    """Raise a UserError unless a program can be timed on this machine.

    Args:
        program: with its module.
        hardware: of the data that the program was ranked by.
        python: of the environment that has JAX.
    """
    if program.module is None:
        raise UserError(f"{program.path}: no HLO module, which is all that can be timed")
    if hardware != "cpu":
        raise UserError(f"--measure: this machine's CPU is no {hardware}, which was ranked for")
    if not python.exists():
        raise UserError(f"--jax {python}: no such file; make rank MEASURE=8 installs JAX")


def time_best(program: Program, configurations: Sequence[int], python: Path) -> Timings:
    """Time the compiler's own choice, and configurations, on this machine.

    XLA may end the process that compiles a configuration. Then each one is timed by itself, with
    the compiler's own choice, and only those on which it ends again have no time.

    Args:
        program: with its module; see :func:`check_timeable`.
        configurations: of the program, by position.
        python: of the environment that has JAX.

    Raises:
        UserError: it cannot be compiled here.
        DataError: a layout is not one that its tensor can have.
    """
    try:
        own, *rounds = _rounds(program, configurations, python)
    except Ended as ended:
        each = [_alone(program, config, python) for config in configurations]
        rounds = [both[1] if both else NONE for both in each]
        owns = [both[0] for both in each if both]
        if not owns:
            raise UserError(f"{program.path}: XLA ended without a result: {ended}") from None
        own = np.concatenate(owns)
    times = [int(label(samples[None])[0]) if len(samples) else None for samples in rounds]
    measured = [samples for samples in (own, *rounds) if len(samples)]
    halves = [[label(samples[None, start::2])[0] for start in (0, 1)] for samples in measured]
    of = dict(zip(configurations, times, strict=True))
    return Timings(of, int(label(own[None])[0]), noise_of(np.array(halves, float)))


NONE = np.empty(0, np.int64)  # rounds of what does not run


class Ended(Exception):
    """XLA ended the process that compiles, or runs, a configuration."""


def _alone(program: Program, config: int, python: Path) -> list[np.ndarray] | None:
    """Return rounds of the compiler's own choice and of one configuration; ``None`` if XLA ends."""
    try:
        return _rounds(program, [config], python)
    except Ended:
        return None


def _rounds(program: Program, configurations: Sequence[int], python: Path) -> list[np.ndarray]:
    """Return nanoseconds of each round: of the compiler's own choice, then of configurations.

    Raises:
        Ended: the process ended without a word of its own.
    """
    graph = program.graph
    unset = np.full_like(graph.node_config_feat[0], -1)
    with TemporaryDirectory() as folder:
        for number, features in enumerate([unset, *graph.node_config_feat[list(configurations)]]):
            module = constrained(program.path, program.module, graph.node_config_ids, features)
            Path(folder, f"{number}.pb").write_bytes(module.SerializeToString())
        command = [str(python.absolute()), *COMMAND, folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, errors="replace")
        lines = done.stderr.strip().splitlines()
        errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
        if done.returncode and errors:
            raise UserError(f"{program.path}: {errors[-1][:300]}")
        if done.returncode:
            raise Ended(", ".join([f"exit code {done.returncode}", *lines[-1:]])[:300])
        path = Path(folder, ROUNDS)
        document = json.loads(path.read_text())
    expect(document, {"rounds": [[int]]}, path)
    return [np.array(samples, np.int64) for samples in document["rounds"]]
