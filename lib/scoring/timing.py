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


@dataclass(frozen=True)
class Timings:
    """Runtimes of configurations beside the compiler's own choice, in nanoseconds.

    Attributes:
        of: of those that were timed, by position; ``None`` if XLA refuses one, or it computes
            something else.
        compilers_own: of the compiler's own choice.
        noise: by how much two timings of one configuration differ, as a share.
    """

    of: dict[int, int | None]
    compilers_own: int
    noise: float

    def words(self, config: int) -> str:
        """What the clock says of a configuration."""
        time = self.of[config]
        if time is None:
            return "XLA refuses it, or it computes something else"
        return f"timed {time / 1e6:.3f} ms, {self._beside(time)}"

    def summary(self, ranks: np.ndarray) -> str:
        """What came of it, in a line; ``ranks`` are of all configurations."""
        text = f"timed: the compiler's own choice takes {self.compilers_own / 1e6:.3f} ms"
        times = {config: time for config, time in self.of.items() if time is not None}
        if times:
            best = min(times, key=times.__getitem__)
            text += f"; the fastest of {len(times)} is configuration {best} (#{ranks[best]}), "
            text += self._beside(times[best])
        return f"{text}; two timings of one differ by {self.noise:.1%}"

    def _beside(self, time: int) -> str:
        gain = self.compilers_own / time - 1
        return f"{abs(gain):.1%} {'faster' if gain >= 0 else 'slower'} than the compiler's own"


def time_best(
    program: Program, configurations: Sequence[int], hardware: str, python: Path
) -> Timings:
    """Time the compiler's own choice, and configurations, on this machine.

    Args:
        program: with its module.
        configurations: of the program, by position.
        hardware: of the data that the program was ranked by.
        python: of the environment that has JAX.

    Raises:
        UserError: it cannot be compiled here, or there is no JAX.
        DataError: a layout is not one that its tensor can have.
    """
    if program.module is None:
        raise UserError(f"{program.path}: no HLO module, which is all that can be timed")
    if hardware != "cpu":
        raise UserError(f"--measure: this machine's CPU is no {hardware}, which was ranked for")
    if not python.exists():
        raise UserError(f"--jax {python}: no such file; make rank MEASURE=8 installs JAX")
    compilers, *rounds = _rounds(program, configurations, python)
    times = [int(label(samples[None])[0]) if len(samples) else None for samples in rounds]
    measured = [samples for samples in (compilers, *rounds) if len(samples)]
    halves = [[label(samples[None, start::2])[0] for start in (0, 1)] for samples in measured]
    noise = noise_of(np.array(halves, float))
    of = dict(zip(configurations, times, strict=True))
    return Timings(of, int(label(compilers[None])[0]), noise)


def _rounds(program: Program, configurations: Sequence[int], python: Path) -> list[np.ndarray]:
    """Nanoseconds of each round: of the compiler's own choice, then of configurations."""
    graph = program.graph
    unset = np.full_like(graph.node_config_feat[0], -1)
    with TemporaryDirectory() as folder:
        for number, features in enumerate([unset, *graph.node_config_feat[list(configurations)]]):
            module = constrained(program.path, program.module, graph.node_config_ids, features)
            Path(folder, f"{number}.pb").write_bytes(module.SerializeToString())
        command = [str(python.absolute()), *COMMAND, folder]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
            errors = [line.removeprefix("error: ") for line in lines if line.startswith("error: ")]
            raise UserError(f"{program.path}: {[*lines, *errors][-1][:300]}")
        path = Path(folder, ROUNDS)
        document = json.loads(path.read_text())
    expect(document, {"rounds": [[int]]}, path)
    return [np.array(samples, np.int64) for samples in document["rounds"]]
