"""What the benches that time XLA's programs have in common: arguments, environment, one core."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from lib.collect.quiet import TimingCore
from lib.collect.xla.__main__ import ENVIRONMENT

if TYPE_CHECKING:
    from lib.collect.xla.bench import ProgramBench

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

    Starts the process anew where its environment is not the collector's.

    Args:
        module: that runs, such as ``tests.bench.pairs``.
        name: of the program.
        core: that it is timed on.
    """
    if any(os.environ.get(key) != value for key, value in ENVIRONMENT.items()):
        os.environ |= ENVIRONMENT  # which is read when a process starts
        os.execv(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]])
    os.sched_setaffinity(0, {core})  # XLA takes a thread for each core that it sees
    from lib.collect.xla.bench import ProgramBench  # late: JAX reads the environment

    return ProgramBench(name, ROUND_SECONDS, TimingCore(core, [core], 0, None, ""))
