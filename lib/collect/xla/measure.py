"""Measure one program, in a process of its own; or add rounds to what is measured of it.

Run by :mod:`lib.collect.xla.__main__` as ``python -m lib.collect.xla.measure PROGRAM OUTPUT ...``
with the environment already set (it is read when the process starts) and pinned to one core. Writes
one npz: everything that was measured, every round of it. It is written first after a few rounds,
so that a kill loses no more than a minute of timing; what was compiled lies in JAX's cache.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
import zlib
from pathlib import Path

import jax
import numpy as np

from lib.collect.quiet import TimingCore
from lib.collect.xla import size
from lib.collect.xla.bench import Compiled, ProgramBench
from lib.collect.xla.enough import KERNELS, RUNS, UNTOLD, missing_rounds
from lib.collect.xla.operations import COLUMN
from lib.files.artifacts import atomic_file
from lib.files.processor import processor
from lib.tpugraphs import drawing

RANDOM, DEFAULT = 0, 1  # which search proposed a configuration
BIRTH_ROUNDS = {RUNS: 4, KERNELS: 1}  # that choose parents; labels come from later rounds
FIRST_GENERATION, GENERATION = 16, 8
FIRST = 9  # configurations that tell whether layouts change a program's runtime
REFUSALS = 200  # by the compiler, or with other outputs: then stop rather than loop for ever


def configurations(bench: ProgramBench, settings: argparse.Namespace, seed: int) -> list[Compiled]:
    """``settings.random`` and ``settings.genetic`` configurations of the searches, compiled.

    Each has the unconstrained configuration first.
    """
    generator = np.random.default_rng(seed)
    if (base := bench.compile(drawing.unconstrained(bench.ranks), RANDOM)) is None:
        raise SystemExit("the unconstrained program does not reproduce its own outputs")
    drawn = [base, *_random_set(bench, settings.random - 1, generator)]
    bred: list[Compiled] = []
    while len(bred) < settings.genetic and bench.rejected <= REFUSALS:
        size = min(GENERATION if bred else FIRST_GENERATION, settings.genetic - len(bred))
        children = _breed(bench, bred, size, generator)
        bench.time(children, BIRTH_ROUNDS[bench.timed_by])
        bred += children
    for program in bred:
        program.rounds.clear()  # parents were chosen for lucky rounds: no labels are made of them
    return drawn + bred


def _random_set(bench: ProgramBench, size: int, generator: np.random.Generator) -> list[Compiled]:
    programs: list[Compiled] = []
    seen = {drawing.unconstrained(bench.ranks).tobytes()}
    while len(programs) < size and bench.rejected <= REFUSALS:
        configuration = drawing.random_configuration(bench.ranks, generator)
        if configuration.tobytes() in seen:
            continue
        seen.add(configuration.tobytes())
        if (program := bench.compile(configuration, RANDOM)) is not None:
            programs.append(program)
    return programs


def _breed(
    bench: ProgramBench, bred: list[Compiled], size: int, generator: np.random.Generator
) -> list[Compiled]:
    """The next generation; the first one has the unconstrained configuration in it."""
    earlier = [parent.configuration for parent in bred]
    runtimes = [min(parent.rounds) for parent in bred]
    first = [] if bred else [drawing.unconstrained(bench.ranks)]
    proposed = first + drawing.next_generation(
        earlier, runtimes, size - len(first), bench.ranks, generator
    )
    children = [bench.compile(c, DEFAULT) for c in proposed]
    return [child for child in children if child is not None]


def check_worth(bench: ProgramBench, settings: argparse.Namespace, seed: int) -> None:
    """End the process, with a line and a status of its own, if a program is not worth its time.

    A program of many sites takes long to compile, again for each configuration. One that its
    layouts hardly change has an order that the clock cannot tell.
    """
    base = bench.compile(drawing.unconstrained(bench.ranks), RANDOM)
    if base is None:
        return  # which has a message of its own
    bench.time([base], 1)
    taken, least, most = base.rounds[0] / 1e6, settings.least_ms, settings.most_ms
    if not least <= taken <= most:
        _leave_out(f"a run takes {taken:.3g} ms, not {least:g} to {most:g}")
    # The first of those to be measured: compiled once, JAX's cache has them the next time.
    generator, started = np.random.default_rng(seed), time.process_time()  # company is not counted
    first = [base, *_random_set(bench, 1, generator)]
    seconds, most = time.process_time() - started, settings.compile_seconds
    if seconds > most:
        _leave_out(f"a configuration compiles in {seconds:.3g} CPU seconds, not {most:g}")
    if (least := settings.least_spread) > 1:
        first += _random_set(bench, FIRST - len(first), generator)
        bench.time(first, BIRTH_ROUNDS[bench.timed_by])
        runtimes = [min(program.rounds) for program in first]
        if (spread := max(runtimes) / min(runtimes)) < least:
            _leave_out(f"layouts change the runtime by {spread:.3f}, not by {least:g} or more")
    bench.rejected = 0


def _leave_out(reason: str) -> None:
    print(reason, file=sys.stderr)
    raise SystemExit(size.UNFIT)


def measured_before(
    bench: ProgramBench, path: Path, settings: argparse.Namespace
) -> list[Compiled]:
    """The configurations of a file that :func:`write` made, compiled again, and their rounds.

    Raises:
        SystemExit: the file is of another processor or JAX, or a program is another now: rounds
            of two different things must not be mixed.
    """
    with np.load(path, allow_pickle=False) as file:
        raw = {key: file[key] for key in file}
    then, now = UNTOLD | json.loads(raw["about"].item()), environment(settings)
    for key, value in now.items():
        if then[key] != value:
            raise SystemExit(f"{path}: {key} was {then[key]!r}, here it is {value!r}; remove it")
    programs = []
    columns = ("configuration", "search", "optimized_hash", "rounds")
    for configuration, which, text, rounds in zip(*(raw[key] for key in columns), strict=True):
        program = bench.compile(configuration, int(which))
        if program is None or program.optimized_hash != text:
            raise SystemExit(f"{path}: a configuration compiles to another program now; remove it")
        program.rounds = rounds[rounds > 0].tolist()
        programs.append(program)
    bench.rejected = int(raw["rejected"])
    return programs


def environment(settings: argparse.Namespace) -> dict[str, str]:
    """What must not change between two rounds of one program."""
    return {
        "processor": processor(),
        "jax": jax.__version__,
        "xla_flags": os.environ.get("XLA_FLAGS", ""),
        "timed_by": settings.timed_by,
    }


def write(
    path: Path, bench: ProgramBench, compiled: list[Compiled], settings: argparse.Namespace
) -> None:
    """One npz: the HLO, the sites, the configurations and every round (ns)."""
    numbers = {k: v for k, v in vars(settings).items() if isinstance(v, int | float)}
    about = {
        **numbers,
        **environment(settings),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        COLUMN: json.dumps(bench.operations),
        "quiet_lock": bool(settings.quiet_lock or settings.clear_core),
    }
    with atomic_file(path) as temporary, open(temporary, "wb") as file:
        np.savez_compressed(
            file,
            module=np.frombuffer(bench.module, np.uint8),
            site_opcode=np.array([s.opcode for s in bench.traced.sites]),
            site_ranks=np.array(bench.ranks, np.int8),
            configuration=np.stack([program.configuration for program in compiled]),
            search=np.array([program.search for program in compiled], np.int8),
            rounds=_rounds(compiled),
            optimized_hash=np.array([program.optimized_hash for program in compiled]),
            rejected=np.array(bench.rejected),
            about=np.array(json.dumps(about, sort_keys=True)),
        )


def _rounds(compiled: list[Compiled]) -> np.ndarray:
    """(c, r) int64 ns."""
    return np.array([program.rounds for program in compiled], np.int64)


def arguments() -> argparse.Namespace:
    """The command line, which :mod:`lib.collect.xla.__main__` writes."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("output", type=Path)
    parser.add_argument("--rounds", type=int, required=True)
    parser.add_argument("--most-rounds", type=int, required=True)
    parser.add_argument("--ceiling", type=float, required=True)
    parser.add_argument("--round-seconds", type=float, required=True)
    parser.add_argument("--random", type=int, required=True)
    parser.add_argument("--genetic", type=int, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--timed-by", required=True)
    parser.add_argument("--core", type=int, required=True)
    parser.add_argument("--compile-cores", required=True)
    parser.add_argument("--nice", type=int, required=True)
    for name in size.SETTINGS:
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, required=True)
    parser.add_argument("--clear-core", default="")
    parser.add_argument("--quiet-lock", type=Path)
    return parser.parse_args()


def main() -> None:
    """Measure one program, or what it lacks in rounds, and write its file."""
    settings = arguments()
    seed = settings.seed + zlib.crc32(settings.program.encode())
    random.seed(seed)
    core = TimingCore(
        settings.core,
        map(int, settings.compile_cores.split(",")),
        settings.nice,
        settings.quiet_lock,
        settings.clear_core,
    )
    bench = ProgramBench(settings.program, settings.round_seconds, core, settings.timed_by)
    if settings.output.exists():
        compiled = measured_before(bench, settings.output, settings)
    else:
        check_worth(bench, settings, seed)
        compiled = configurations(bench, settings, seed)
    searches = np.array([program.search for program in compiled])
    while missing := missing_rounds(_rounds(compiled), searches, settings):
        bench.time(compiled, missing)
        write(settings.output, bench, compiled, settings)


if __name__ == "__main__":
    main()
