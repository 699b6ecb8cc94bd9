"""``python -m lib.collect.xla.timed FOLDER``: time modules that compute the same, on one core.

FOLDER has them as ``0.pb``, ``1.pb`` and so on, each an HloModuleProto; the other modules are
compared with the first. ``rounds.json`` is written in the same folder: nanoseconds of each module's
rounds, none of one that XLA refuses or that gives other results. Inputs are drawn at random.
"""

from __future__ import annotations

import os
from pathlib import Path

from lib.collect.xla.environment import time_here
from lib.files.artifacts import write_json
from lib.files.command_line import Parser
from lib.files.errors import one_line_errors

ROUNDS, ROUND_SECONDS = 16, 0.05


def main() -> None:
    """Time the modules of a folder."""
    parser = Parser(prog="python -m lib.collect.xla.timed", description=__doc__)
    parser.add_argument("folder", type=Path, help="with 0.pb, 1.pb and so on")
    core = max(os.sched_getaffinity(0))
    parser.add_argument("--core", type=int, default=core, help="to compile and to run on")
    args = parser.parse_args()
    time_here("lib.collect.xla.timed", args.core)
    from lib.collect.xla.bench import Bench  # late: JAX reads the environment

    count = len(list(args.folder.glob("*.pb")))
    first, *others = [Path(args.folder, f"{n}.pb").read_bytes() for n in range(count)]
    bench = Bench(first, ROUND_SECONDS)
    compiled = [bench.first, *map(bench.compile, others)]
    bench.time([program for program in compiled if program is not None], ROUNDS)
    rounds = [[] if program is None else program.rounds for program in compiled]
    write_json(args.folder / "rounds.json", {"rounds": rounds})


if __name__ == "__main__":
    with one_line_errors():
        main()
