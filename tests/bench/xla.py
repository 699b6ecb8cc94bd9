"""What the benches that time XLA's programs have in common: arguments, environment, one core."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np

from lib.collect.quiet import TimingCore
from lib.collect.xla.__main__ import time_here
from lib.tpugraphs import drawing

if TYPE_CHECKING:
    from lib.collect.xla.bench import Compiled, ProgramBench

ROUNDS, ROUND_SECONDS = 24, 0.006


def arguments(description: str, count: int, counted: str) -> argparse.Namespace:
    """Of a bench of one program: its ``program``, ``count`` and ``core``."""
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=count, help=counted)
    parser.add_argument("--core", type=int, default=1)
    return parser.parse_args()


def program_bench(module: str, name: str, core: int) -> ProgramBench:
    """A program to compile and time on one core, as the collector does.

    Args:
        module: that runs, see :func:`time_here`.
        name: of the program.
        core: that it is timed on.
    """
    time_here(module, core)
    from lib.collect.xla.bench import ProgramBench  # late: JAX reads the environment

    return ProgramBench(name, ROUND_SECONDS, TimingCore(core, [core], 0, None, ""))


def compiled_at_random(
    bench: ProgramBench, count: int, generator: np.random.Generator
) -> list[Compiled]:
    """Random configurations of a program, but for those that XLA refuses."""
    wanted = [drawing.random_configuration(bench.ranks, generator) for _ in range(count)]
    return [one for each in wanted if (one := bench.compile(each, 0)) is not None]
