"""Compile, verify and time configurations of one program, in a process of its own.

Run by :mod:`lib.collect.__main__` as ``python -m lib.collect.measure PROGRAM OUTPUT ...`` with
the allocator's environment already set (it is read when the process starts) and pinned to one
core. Writes one npz: everything that was measured, every round of it.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import platform
import random
import re
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from lib.artifacts import atomic_file
from lib.collect import instrument, search
from lib.collect.zoo import program_named

RANDOM, DEFAULT = 0, 1  # which search proposed a configuration
TOLERANCE = 2e-3  # of an output's largest magnitude: layouts change the order of summation
ROUNDING = 1e-6  # of the largest output's: a gradient that is zero in theory is only rounding


LOOKS = 2  # at most, in one round, for a moment when the core is undisturbed
DISTURBED = 1.12  # times the probe's usual best: a neighbour costs 1.5, jitter a few percent


@dataclass
class Measured:
    """One configuration, compiled and verified, with its rounds so far in nanoseconds."""

    configuration: np.ndarray
    search: int
    executable: Any
    optimized_hash: str
    rounds: list[int] = field(default_factory=list)


class ProgramBench:
    """One program on one core: compiles configurations, checks their outputs, times them."""

    def __init__(self, name: str, round_seconds: float, quiet_lock: Path | None = None):
        self.quiet_lock = quiet_lock
        self.core = CoreProbe()
        function, arguments = program_named(name).build()
        self.traced = instrument.trace(function, arguments)
        self.arguments = [jax.device_put(x) for x in jax.tree.leaves(tuple(arguments))]
        self.round_seconds = round_seconds
        self.ranks = [site.ranks for site in self.traced.sites]
        self.rejected = 0
        plain = jax.jit(self.traced.configured(None)).lower(*self.arguments)
        self.module = plain.compiler_ir("hlo").as_serialized_hlo_module_proto()
        self.expected = [np.asarray(x) for x in plain.compile()(*self.arguments)]

    def compile(self, configuration: np.ndarray, search_id: int) -> Measured | None:
        """Compile and verify; ``None`` (and counted) if XLA refuses or an output differs."""
        function = self.traced.configured(configuration)
        try:
            executable = jax.jit(function).lower(*self.arguments).compile()
            outputs = [np.asarray(x) for x in executable(*self.arguments)]
        except jax.errors.JaxRuntimeError:
            outputs = []
        if not self._agrees(outputs):
            self.rejected += 1
            return None
        return Measured(configuration, search_id, executable, optimized_hash(executable))

    def _agrees(self, outputs: list[np.ndarray]) -> bool:
        if len(outputs) != len(self.expected):
            return False
        scales = [float(np.max(np.abs(want), initial=0.0)) for want in self.expected]
        for got, want, scale in zip(outputs, self.expected, scales, strict=True):
            allowed = max(TOLERANCE * scale, ROUNDING * max(scales))
            if got.shape != want.shape or not np.all(np.abs(got - want) <= allowed):
                return False
        return True

    def time_round(self, measured: list[Measured]) -> None:
        """One round of each configuration, in shuffled order: adds its fastest run."""
        with quiet(self.quiet_lock):
            for one in random.sample(measured, len(measured)):
                one.rounds.append(self._fastest_run(one.executable))

    def _fastest_run(self, executable: Any) -> int:
        """Nanoseconds of the fastest run, looked for until the core was undisturbed once.

        One look is ``round_seconds`` of runs, at least three after a warm-up; it is repeated, up
        to ``LOOKS`` times, while a neighbour slowed the core down. Whatever the neighbours do,
        they can only make a run slower, so the fastest of all looks stands.
        """
        jax.block_until_ready(executable(*self.arguments))
        fastest = 1 << 62
        for _ in range(LOOKS):
            before = self.core.undisturbed()
            fastest = min(fastest, self._look(executable))
            if before and self.core.undisturbed():
                break
        return fastest

    def _look(self, executable: Any) -> int:
        fastest, runs, end = 1 << 62, 0, time.perf_counter() + self.round_seconds
        while runs < 3 or time.perf_counter() < end:
            start = time.perf_counter_ns()
            jax.block_until_ready(executable(*self.arguments))
            fastest, runs = min(fastest, time.perf_counter_ns() - start), runs + 1
        return fastest


class CoreProbe:
    """Tells whether the core runs at its full speed, by a fixed piece of work of a quarter of a ms.

    A busy neighbour on the same physical core (another process here, or another machine's on
    the same host, which no tool of ours can see) slows the work to two thirds; so does a lower
    clock. It tends to last for tenths of a second, longer than a round.
    """

    def __init__(self) -> None:
        self.history = [self._work() for _ in range(400)]

    def undisturbed(self) -> bool:
        """Whether the work now takes at most ``DISTURBED`` of what it usually takes at best.

        That is the tenth percentile of all probes so far: a rare burst of a higher clock must
        not set a mark that is never reached again.
        """
        now = min(self._work(), self._work())
        self.history.append(now)
        return now <= DISTURBED * float(np.percentile(self.history, 10))

    @staticmethod
    def _work() -> int:
        start = time.perf_counter_ns()
        sum(range(20_000))
        return time.perf_counter_ns() - start


@contextmanager
def quiet(lock: Path | None) -> Iterator[None]:
    """Hold an exclusive lock on a file while timing, if one is named.

    A neighbour on the other core slows a memory-bound program by a fifth and more, and not
    evenly. Whatever else must run on the machine can take the same lock, or be stopped by a
    watcher that sees it held; compiling, most of the time, goes on without it.
    """
    if lock is None:
        yield
        return
    with open(lock, "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def optimized_hash(executable: Any) -> str:
    """Hash of the optimized HLO without metadata: equal for equal machine programs."""
    text = re.sub(r", metadata=\{[^}]*\}", "", executable.as_text())
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def measure(bench: ProgramBench, settings: argparse.Namespace, seed: int) -> list[Measured]:
    """Both searches on one program, their rounds spread over the same span of time.

    The random configurations get ``settings.rounds`` rounds, one after each generation of the
    genetic search and the rest at the end. Genetic runtimes lie closer together: they get two
    rounds at birth, which select the parents, and ``settings.rounds`` more at the end.
    """
    generator = np.random.default_rng(seed)
    base = bench.compile(search.unconstrained(bench.ranks), RANDOM)
    if base is None:
        raise SystemExit("the unconstrained program does not reproduce its own outputs")
    drawn = [base, *_random_set(bench, settings.random - 1, generator)]
    bred: list[Measured] = []
    while len(bred) < settings.genetic and not _exhausted(bench):
        children = _breed(bench, bred, min(8, settings.genetic - len(bred)), generator)
        for _ in range(2):
            bench.time_round(children)
        bred += children
        if len(drawn[0].rounds) < settings.rounds:
            bench.time_round(drawn)
    while len(drawn[0].rounds) < settings.rounds:
        bench.time_round(drawn)
    for _ in range(settings.rounds):
        bench.time_round(bred)
    return drawn + bred


def _exhausted(bench: ProgramBench) -> bool:
    """Too many refusals: stop rather than loop for ever."""
    return bench.rejected > 200


def _random_set(bench: ProgramBench, size: int, generator: np.random.Generator) -> list[Measured]:
    found: list[Measured] = []
    seen = {search.unconstrained(bench.ranks).tobytes()}
    while len(found) < size and not _exhausted(bench):
        configuration = search.random_configuration(bench.ranks, generator)
        if configuration.tobytes() in seen:
            continue
        seen.add(configuration.tobytes())
        if (one := bench.compile(configuration, RANDOM)) is not None:
            found.append(one)
    return found


def _breed(
    bench: ProgramBench, bred: list[Measured], size: int, generator: np.random.Generator
) -> list[Measured]:
    """The next generation; the first one has the unconstrained configuration in it."""
    history = [one.configuration for one in bred]
    runtimes = [min(one.rounds) for one in bred]
    first = [] if bred else [search.unconstrained(bench.ranks)]
    proposed = first + search.next_generation(
        history, runtimes, size - len(first), bench.ranks, generator
    )
    children = [bench.compile(c, DEFAULT) for c in proposed]
    return [one for one in children if one is not None]


def about(settings: argparse.Namespace) -> dict[str, Any]:
    """What a reader needs to judge the numbers: processor, versions, settings, date."""
    model = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    numbers = {k: v for k, v in vars(settings).items() if isinstance(v, int | float)}
    return {
        "processor": model.group(1) if model else platform.processor(),
        "jax": jax.__version__,
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "quiet_lock": settings.quiet_lock is not None,
        **numbers,
    }


def write(
    path: Path, bench: ProgramBench, measured: list[Measured], settings: argparse.Namespace
) -> None:
    """One npz: the HLO, the sites, the configurations and every round (ns, 0 where unused)."""
    rounds = np.zeros((len(measured), max(len(one.rounds) for one in measured)), np.int64)
    for row, one in zip(rounds, measured, strict=True):
        row[: len(one.rounds)] = one.rounds
    with atomic_file(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(
            file,
            module=np.frombuffer(bench.module, np.uint8),
            site_opcode=np.array([s.opcode for s in bench.traced.sites]),
            site_ranks=np.array(bench.ranks, np.int8),
            configuration=np.stack([one.configuration for one in measured]),
            search=np.array([one.search for one in measured], np.int8),
            rounds=rounds,
            optimized_hash=np.array([one.optimized_hash for one in measured]),
            rejected=np.array(bench.rejected),
            about=np.array(json.dumps(about(settings), sort_keys=True)),
        )


def main() -> None:
    """Measure one program and write its file."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("output", type=Path)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--round-seconds", type=float, required=True)
    parser.add_argument("--random", type=int, required=True)
    parser.add_argument("--genetic", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--quiet-lock", type=Path)
    settings = parser.parse_args()
    seed = settings.seed + zlib.crc32(settings.program.encode())
    random.seed(seed)
    bench = ProgramBench(settings.program, settings.round_seconds, settings.quiet_lock)
    write(settings.output, bench, measure(bench, settings, seed), settings)


if __name__ == "__main__":
    main()
