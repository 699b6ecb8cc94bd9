"""One program on one core: compiles its configurations, checks what they compute, times them."""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np

from lib.collect.quiet import TimingCore
from lib.collect.xla import instrument
from lib.collect.xla.enough import AT_ONCE, KERNELS, RUNS
from lib.collect.xla.kernels import Kernel, kernels_of, profiled, typical
from lib.collect.xla.operations import operations
from lib.collect.xla.zoo import program_named

TOLERANCE = 2e-3  # of an output's largest magnitude: layouts change the order of summation
ROUNDING = 1e-6  # of the largest output's: a gradient that is zero in theory is only rounding
FEWEST_RUNS = 2  # in a round, after one that warms the caches up
PROFILED_RUNS = 6  # of a configuration in a round that is timed by kernels
NESTED = ("while", "call", "conditional")  # kernels whose time is that of other kernels


@dataclass
class Compiled:
    """One configuration, compiled and verified."""

    configuration: np.ndarray
    search: int
    executable: Any
    optimized_hash: str
    rounds: list[int] = field(default_factory=list)  # nanoseconds, in the order of time


class ProgramBench:
    """One program: what it computes, its sites, and how to time a configuration of it."""

    def __init__(self, name: str, round_seconds: float, core: TimingCore, timed_by: str = RUNS):
        self.core, self.timed_by = core, timed_by
        self.round_seconds = round_seconds
        jax.devices()  # XLA takes one thread for each core that it sees now: this one
        core.release()
        function, arguments = program_named(name).build()
        self.traced = instrument.trace(function, arguments)
        self.arguments = [jax.device_put(x) for x in jax.tree.leaves(tuple(arguments))]
        self.ranks = [site.ranks for site in self.traced.sites]
        self.rejected = 0
        plain = jax.jit(self.traced.configured(None)).lower(*self.arguments)
        self.module = plain.compiler_ir("hlo").as_serialized_hlo_module_proto()
        executable = plain.compile()
        self.operations = operations(executable.as_text())
        self.expected = [np.asarray(x) for x in executable(*self.arguments)]

    def compile(self, configuration: np.ndarray, search_id: int) -> Compiled | None:
        """Compile and verify; ``None`` (and counted) if XLA refuses or an output differs."""
        try:
            executable = self.executable(configuration)
            outputs = [np.asarray(x) for x in executable(*self.arguments)]
        except jax.errors.JaxRuntimeError:
            outputs = []
        if not self._agrees(outputs):
            self.rejected += 1
            return None
        return Compiled(configuration, search_id, executable, optimized_hash(executable))

    def executable(self, configuration: np.ndarray) -> Any:
        """The program under a configuration, a function of the arguments."""
        function = self.traced.configured(configuration)
        return jax.jit(function).lower(*self.arguments).compile()

    def _agrees(self, outputs: list[np.ndarray]) -> bool:
        if len(outputs) != len(self.expected):
            return False
        scales = [
            float(np.max(np.abs(want[np.isfinite(want)]), initial=0.0)) for want in self.expected
        ]
        for got, want, scale in zip(outputs, self.expected, scales, strict=True):
            allowed = max(TOLERANCE * scale, ROUNDING * max(scales))
            same = got.shape == want.shape
            if not same or not np.isclose(got, want, rtol=0, atol=allowed, equal_nan=True).all():
                return False
        return True

    def time(self, compiled: list[Compiled], rounds: int) -> None:
        """Add ``rounds`` rounds to each configuration, timed by what the bench times by."""
        (self._time_kernels if self.timed_by == KERNELS else self._time_runs)(compiled, rounds)

    def _time_runs(self, compiled: list[Compiled], rounds: int) -> None:
        """Time runs: all configurations in shuffled order, again and again, so that a slow moment
        of the machine falls on one round of a few of them."""
        for first in range(0, rounds, AT_ONCE):
            with self.core.calm():
                for _ in range(min(AT_ONCE, rounds - first)):
                    for program in random.sample(compiled, len(compiled)):
                        program.rounds.append(self._fastest_run(program.executable))

    def _time_kernels(self, compiled: list[Compiled], rounds: int) -> None:
        """Sum kernels' times.

        Configurations of a program have most of their kernels in common. In each round XLA's
        profiler times those of every configuration, and what a kernel takes is the median over all
        configurations that have it. So a noisy moment falls on few of a configuration's kernels,
        and equal programs have equal sums.
        """
        by_name = [kernels_of(program.executable.as_text()) for program in compiled]
        for _ in range(rounds):
            times: dict[Kernel, list[float]] = defaultdict(list)
            kernels: list[list[Kernel]] = [[] for _ in compiled]
            with self.core.calm():
                for index in random.sample(range(len(compiled)), len(compiled)):
                    for kernel, time in self._of_kernels(compiled[index], by_name[index]):
                        kernels[index].append(kernel)
                        times[kernel].append(time)
            medians = {kernel: float(np.median(readings)) for kernel, readings in times.items()}
            for program, executed in zip(compiled, kernels, strict=True):
                program.rounds.append(round(sum(medians[kernel] for kernel in executed)))

    def _of_kernels(
        self, program: Compiled, by_name: dict[str, Kernel]
    ) -> list[tuple[Kernel, float]]:
        """The kernels of a configuration, and nanoseconds of each in one run of it."""
        times = profiled(program.executable, self.arguments, by_name, PROFILED_RUNS)
        return [
            (by_name[name], 1e3 * typical(readings) * len(readings) / PROFILED_RUNS)
            for name, readings in times.items()
            if by_name[name].kind not in NESTED
        ]

    def _fastest_run(self, executable: Any) -> int:
        """Nanoseconds of the fastest run within ``round_seconds``, after a warm-up."""
        jax.block_until_ready(executable(*self.arguments))
        fastest, runs, end = 1 << 62, 0, time.perf_counter() + self.round_seconds
        while runs < FEWEST_RUNS or time.perf_counter() < end:
            start = time.perf_counter_ns()
            jax.block_until_ready(executable(*self.arguments))
            fastest, runs = min(fastest, time.perf_counter_ns() - start), runs + 1
        return fastest


def optimized_hash(executable: Any) -> str:
    """Hash of the optimized HLO: equal for equal machine programs.

    Metadata and the tables of source lines that it refers to are left out.
    """
    text = re.sub(r", metadata=\{[^}]*\}", "", executable.as_text())
    tables = r"^(FileNames|FunctionNames|FileLocations|StackFrames)\n(\d.*\n)*\n*"
    return hashlib.sha256(re.sub(tables, "", text, flags=re.MULTILINE).encode()).hexdigest()[:16]
