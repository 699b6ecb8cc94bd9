"""Measure one program, in a process of its own.

Run by :mod:`lib.collect.xla.__main__` as ``python -m lib.collect.xla.measure SETTINGS`` (JSON) with
the environment already set (it is read when the process starts) and pinned to one core. Writes one
npz: everything that was measured, every round of it.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
import zlib
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np

from lib.collect.xla.bench import Bench, Compiled
from lib.collect.xla.kernels import KERNELS, RUNS
from lib.collect.xla.programs import Program
from lib.files.artifacts import atomic_file
from lib.files.errors import UserError, one_line_errors
from lib.files.processor import processor
from lib.tpugraphs import drawing
from lib.tpugraphs.constrain import constrained

RANDOM, DEFAULT = 0, 1  # which search proposed a configuration
BIRTH_ROUNDS = {RUNS: 4, KERNELS: 1}  # that choose parents; labels come from later rounds
FIRST_GENERATION, GENERATION = 16, 8
ATTEMPTS = 100  # to draw a configuration that is new: a program may have fewer than are wanted
REFUSALS = 200  # by the compiler, or with other outputs: then stop rather than loop for ever


class Measurement:
    """One program, what it is measured with, and what was measured."""

    def __init__(self, program: Program, settings: SimpleNamespace):
        self.path, self.settings = Path(settings.output), settings
        self.program = program
        self.module, self.nodes, self.ranks = program.read()
        first = self._under(drawing.unconstrained(self.ranks))
        self.bench = Bench(first, settings.round_seconds, settings.timed_by)
        if not all(np.isfinite(output).any() for output in self.bench.expected):
            raise UserError("random inputs give an output without a finite number")
        self.compiled: list[Compiled] = []

    def _under(self, configuration: np.ndarray) -> bytes:
        features = configuration.reshape(len(self.nodes), -1)
        return constrained(self.program.path, self.module, self.nodes, features).SerializeToString()

    def compile(self, configuration: np.ndarray, search: int) -> Compiled | None:
        """Return a configuration, compiled and verified."""
        if (configuration < 0).all():  # which is compiled already
            made: Compiled | None = self.bench.first
        else:
            made = self.bench.compile(self._under(configuration))
        return made and replace(made, configuration=configuration, search=search, rounds=[])

    @property
    def rounds(self) -> np.ndarray:
        """(c, r) int64 ns."""
        return np.array([program.rounds for program in self.compiled], np.int64)

    def search(self, generator: np.random.Generator) -> None:
        """Compile the configurations of both searches, the unconstrained one first in each."""
        base = drawing.unconstrained(self.ranks)
        drawn, seen = [self.compile(base, RANDOM)], {base.tobytes()}
        for _attempt in range(ATTEMPTS * self.settings.random):
            if len(drawn) >= self.settings.random or self.bench.rejected > REFUSALS:
                break
            configuration = drawing.random_configuration(self.ranks, generator)
            if configuration.tobytes() not in seen:
                seen.add(configuration.tobytes())
                made = self.compile(configuration, RANDOM)
                drawn += [made] if made is not None else []
        bred: list[Compiled] = []
        while len(bred) < self.settings.genetic and self.bench.rejected <= REFUSALS:
            size = GENERATION if bred else FIRST_GENERATION
            size = min(size, self.settings.genetic - len(bred))
            first = [] if bred else [base]
            proposed = first + drawing.next_generation(
                [parent.configuration for parent in bred],
                [min(parent.rounds) for parent in bred],
                size - len(first),
                self.ranks,
                generator,
            )
            if not proposed:  # a program of few layouts has no more
                break
            children = [self.compile(configuration, DEFAULT) for configuration in proposed]
            children = [child for child in children if child is not None]
            self.bench.time(children, BIRTH_ROUNDS[self.bench.timed_by])
            bred += children
        for program in bred:
            program.rounds.clear()  # parents were picked for lucky rounds: they make no labels
        self.compiled = drawn + bred

    def write(self) -> None:
        """Write one npz: the HLO, its configurable nodes, the configurations and every round."""
        numbers = {k: v for k, v in vars(self.settings).items() if isinstance(v, int | float)}
        metadata = {
            **numbers,
            "processor": processor(),
            "jax": jax.__version__,
            "xla_flags": os.environ.get("XLA_FLAGS", ""),
            "timed_by": self.settings.timed_by,
            "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        }
        with atomic_file(self.path) as temporary, open(temporary, "wb") as file:
            np.savez_compressed(
                file,
                module=np.frombuffer(self.module.SerializeToString(), np.uint8),
                nodes=self.nodes,
                configuration=np.stack([program.configuration for program in self.compiled]),
                search=np.array([program.search for program in self.compiled], np.int8),
                rounds=self.rounds,
                optimized_hash=np.array([program.optimized_hash for program in self.compiled]),
                rejected=np.array(self.bench.rejected),
                about=np.array(json.dumps(metadata, sort_keys=True)),
            )


def main() -> None:
    """Measure one program, and write its file."""
    settings = SimpleNamespace(**json.loads(sys.argv[1]))
    program = Program(settings.name, settings.source, Path(settings.module))
    seed = settings.seed + zlib.crc32(program.name.encode())
    random.seed(seed)
    measurement = Measurement(program, settings)
    measurement.search(np.random.default_rng(seed))
    measurement.bench.time(measurement.compiled, settings.rounds)
    measurement.write()


if __name__ == "__main__":
    with one_line_errors():
        main()
