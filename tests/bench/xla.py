"""What the benches that time XLA's programs have in common: arguments, environment, one core."""

from __future__ import annotations

import argparse
from types import SimpleNamespace
from typing import TYPE_CHECKING

import numpy as np

from lib.collect.quiet import TimingCore
from lib.collect.xla.environment import time_here
from lib.collect.xla.programs import selected_programs

if TYPE_CHECKING:
    from lib.collect.xla.measure import Measurement

ROUND_SECONDS = 0.006


def compiled_at_random(module: str, description: str, count: int) -> Measurement:
    """The program that the command line names, compiled on one core under random configurations.

    Args:
        module: that runs, see :func:`time_here`.
        description: of the bench.
        count: of configurations, if the command line has no other.
    """
    parser = argparse.ArgumentParser(description=description.partition("\n")[0])
    parser.add_argument("program", help="the name of a bundled program, or a file of HLO")
    parser.add_argument("--count", type=int, default=count, help="of random configurations")
    parser.add_argument("--core", type=int, default=1)
    args = parser.parse_args()
    time_here(module, args.core)
    from lib.collect.xla.measure import RUNS, Measurement  # late: JAX reads the environment

    (program,) = selected_programs(args.program)
    settings = SimpleNamespace(
        output="", round_seconds=ROUND_SECONDS, timed_by=RUNS, random=args.count, genetic=0
    )
    measurement = Measurement(program, settings, TimingCore(args.core))
    measurement.search(np.random.default_rng(0))
    return measurement
