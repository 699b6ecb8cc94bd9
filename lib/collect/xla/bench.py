"""Modules on one core that compute the same: compiled, checked against the first, and timed."""

from __future__ import annotations

import hashlib
import random
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax._src import compiler
from jax._src.interpreters.mlir import make_ir_context
from jax._src.lib import _jax, xla_client
from jax._src.lib.mlir import ir
from jaxlib import _hlo
from jaxlib.cpu import _lapack

from lib.collect.xla.kernels import KERNELS, RUNS, Kernel, kernels_of, profiled, typical
from lib.files.errors import UserError

_lapack.initialize()  # as JAX does where it lowers a call: without it `solve` ends the process
TOLERANCE = 2e-3  # of an output's largest magnitude: layouts change the order of summation
ROUNDING = 1e-6  # of the largest output's: a gradient that is zero in theory is only rounding
FEWEST_RUNS = 2  # in a round, after one that warms the caches up
PROFILED_RUNS = 6  # of a configuration in a round that is timed by kernels
NESTED = ("while", "call", "conditional")  # kernels whose time is that of other kernels
SEED = 0


class Module:
    """A compiled module, to be called like a function of JAX."""

    def __init__(self, data: bytes):
        device = jax.devices()[0]
        options = compiler.get_compile_options(num_replicas=1, num_partitions=1)
        with make_ir_context():
            module = ir.Module.parse(_jax.mlir.hlo_to_stablehlo(data))
            self.loaded = compiler.compile_or_get_cached(
                device.client,
                module,
                np.array([device]),
                options,
                [],
                xla_client.DeviceList((device,)),
            )

    def __call__(self, *arguments: jax.Array) -> list[jax.Array]:
        results = self.loaded.execute_sharded(arguments)
        return [shards[0] for shards in results.disassemble_into_single_device_arrays()]

    def as_text(self) -> str:
        """Return the optimized program."""
        return self.loaded.hlo_modules()[0].to_string()


@dataclass
class Compiled:
    """A module that was compiled and verified; of which configuration and search, if of one."""

    executable: Module
    optimized_hash: str
    configuration: np.ndarray | None = None
    search: int = 0
    rounds: list[int] = field(default_factory=list)  # nanoseconds, in the order of time


class Bench:
    """Modules that compute what the first of them does."""

    def __init__(self, first: bytes, round_seconds: float, timed_by: str = RUNS):
        self.round_seconds, self.timed_by = round_seconds, timed_by
        self.rejected = 0
        try:
            self.arguments = [jax.device_put(x) for x in arguments_of(first)]
            executable = Module(first)
            self.expected = [np.asarray(x) for x in executable(*self.arguments)]
        except (jax.errors.JaxRuntimeError, RuntimeError, ValueError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UserError(f"XLA cannot run it here: {reason}") from None
        self.first = Compiled(executable, optimized_hash(executable))

    def compile(self, data: bytes) -> Compiled | None:
        """Compile and verify; ``None`` (and counted) if XLA refuses or an output differs."""
        try:
            executable = Module(data)
            outputs = [np.asarray(x) for x in executable(*self.arguments)]
        except jax.errors.JaxRuntimeError:
            outputs = []
        if not self._agrees(outputs):
            self.rejected += 1
            return None
        return Compiled(executable, optimized_hash(executable))

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

    def time(self, compiled: Sequence[Compiled], rounds: int) -> None:
        """Add ``rounds`` rounds to each module, timed by what the bench times by."""
        (self._time_kernels if self.timed_by == KERNELS else self._time_runs)(compiled, rounds)

    def _time_runs(self, compiled: Sequence[Compiled], rounds: int) -> None:
        """Time runs: all configurations in shuffled order, again and again, so that a slow moment
        of the machine falls on one round of a few of them."""
        for _ in range(rounds):
            for program in random.sample(compiled, len(compiled)):
                program.rounds.append(self._fastest_run(program.executable))

    def _time_kernels(self, compiled: Sequence[Compiled], rounds: int) -> None:
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
            for index in random.sample(range(len(compiled)), len(compiled)):
                program, known = compiled[index].executable, by_name[index]
                found = profiled(program, self.arguments, known, PROFILED_RUNS)
                for name, own in found.items():
                    kernel = known[name]
                    if kernel.kind not in NESTED:  # nanoseconds of it in one run
                        kernels[index].append(kernel)
                        times[kernel].append(1e3 * typical(own) * len(own) / PROFILED_RUNS)
            medians = {kernel: float(np.median(readings)) for kernel, readings in times.items()}
            for program, executed in zip(compiled, kernels, strict=True):
                program.rounds.append(round(sum(medians[kernel] for kernel in executed)))

    def _fastest_run(self, executable: Module) -> int:
        """Return nanoseconds of the fastest run within ``round_seconds``, after a warm-up."""
        jax.block_until_ready(executable(*self.arguments))
        fastest, runs, end = 1 << 62, 0, time.perf_counter() + self.round_seconds
        while runs < FEWEST_RUNS or time.perf_counter() < end:
            start = time.perf_counter_ns()
            jax.block_until_ready(executable(*self.arguments))
            fastest, runs = min(fastest, time.perf_counter_ns() - start), runs + 1
        return fastest


def arguments_of(data: bytes) -> list[np.ndarray]:
    """Return something for each parameter of a module, as networks have it.

    Integers are zeros and ones. Numbers are normal ones: divided by the root of their last size
    but one, as weights are drawn; around 1 in vectors, which may be variances or scales.

    Raises:
        UserError: a parameter is a tuple.
    """
    shapes = _hlo.XlaComputation(data).program_shape().parameter_shapes()
    generator = np.random.default_rng(SEED)
    drawn: list[Any] = []
    for shape in shapes:
        if not shape.is_array():
            raise UserError(f"a parameter is {shape}; only modules whose parameters are arrays run")
        sizes, dtype = shape.dimensions(), np.dtype(shape.numpy_dtype())
        normal = generator.standard_normal(sizes)
        if dtype.kind in "biu":
            drawn.append((normal > 0).astype(dtype))
        elif len(sizes) < 2:
            drawn.append((1 + normal / 10).astype(dtype))
        else:
            drawn.append((normal / max(sizes[-2], 1) ** 0.5).astype(dtype))
    return drawn


def optimized_hash(executable: Module) -> str:
    """Return the hash of the optimized HLO: equal for equal machine programs.

    Metadata and the tables of source lines that it refers to are left out.
    """
    text = re.sub(r", metadata=\{[^}]*\}", "", executable.as_text())
    tables = r"^(FileNames|FunctionNames|FileLocations|StackFrames)\n(\d.*\n)*\n*"
    return hashlib.sha256(re.sub(tables, "", text, flags=re.MULTILINE).encode()).hexdigest()[:16]
