"""``make collect``: measure layout data on this machine's XLA:CPU.

Each program is measured by a process of its own (:mod:`lib.collect.xla.measure`), pinned to one
core, and becomes one file in the output folder. A kill loses the minutes of one program;
``--resume`` goes on with the rest.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from queue import SimpleQueue

import numpy as np

from lib.collect.xla.environment import measuring_environment
from lib.collect.xla.kernels import KERNELS, RUNS
from lib.collect.xla.programs import Program, bundled_programs, selected_programs
from lib.files.artifacts import remove_leftovers
from lib.files.children import end_with_parent
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.files.foreign import reading
from lib.files.processor import cores_of
from lib.files.progress import Lines

ROUNDS, FEWEST = {RUNS: 24, KERNELS: 4}, {RUNS: 4, KERNELS: 2}  # of a configuration


def parse_arguments() -> argparse.Namespace:
    """Return the command line."""
    parser = Parser(prog="python -m lib.collect.xla", description=__doc__)
    add = parser.add_argument
    add("--output", type=Path, default=Path("outputs/collect"))
    add("--cores", default="1", help="one collector timing on each, such as 0,1")
    which = "comma-separated: names or patterns of bundled programs, files or folders of HLO"
    add("--programs", default="*", help=which)
    how = "whole runs; or the sum of a program's kernels, for a machine whose clock is noisy"
    add("--timed-by", choices=(RUNS, KERNELS), default=RUNS, help=how)
    add("--rounds", type=int, help="a configuration's; default 24 of runs, 4 of kernels")
    add("--round-seconds", type=float, default=0.006, help="of runs in one round")
    add("--random", type=int, default=50, help="random configurations a program")
    add("--genetic", type=int, default=34, help="genetic configurations a program")
    add("--seed", type=int, default=0)
    add("--resume", action="store_true", help="keep what is measured, do the rest")
    add("--list", action="store_true", help="name the bundled programs and stop")
    args = parser.parse_args()
    args.rounds = ROUNDS[args.timed_by] if args.rounds is None else args.rounds
    if args.rounds < (fewest := FEWEST[args.timed_by]):
        raise UserError(f"--rounds {args.rounds}: at least {fewest}, or labels are noise")
    return args


def main() -> None:
    """Measure every selected program that has no file yet."""
    args = parse_arguments()
    if args.list:
        print("\n".join(f"{p.source}  {p.name}" for p in bundled_programs()))
        return
    cores = cores_of("--cores", args.cores)
    programs = selected_programs(args.programs)
    files = [args.output / program.source / f"{program.name}.npz" for program in programs]
    if not args.resume and any(path.exists() for path in files):
        raise UserError(f"{args.output} has measurements: add --resume to go on, or empty it")
    todo = [
        (program, path)
        for program, path in zip(programs, files, strict=True)
        if not measured(path, args.rounds)
    ]
    environment = measuring_environment(os.environ)
    free: SimpleQueue[str] = SimpleQueue()
    for core in cores:
        free.put(core)

    def run(program: Program, path: Path) -> str | None:
        core = free.get()
        try:
            return measure(program, path, core, args, environment)
        finally:
            free.put(core)

    with ThreadPoolExecutor(len(cores)) as pool:
        futures = [pool.submit(run, *job) for job in todo]
        done = Lines("collect", len(futures), "program").over(as_completed(futures))
        failures = [line for future in done if (line := future.result()) is not None]
    print(
        f"collect: {len(programs) - len(failures)} of {len(programs)} programs measured in "
        f"{args.output}/" + "".join(f"\n  failed: {line}" for line in failures)
    )
    if failures:
        sys.exit(1)


def measured(path: Path, rounds: int) -> bool:
    """Return whether there is a raw file; raises a UserError if it has fewer rounds than wanted."""
    if not path.exists():
        return False
    whole = "what make collect wrote; delete it, and it is measured again"
    with reading(path, "file", whole), np.load(path, allow_pickle=False) as file:
        least = int((file["rounds"] > 0).sum(1).min())
    if least < rounds:
        raise UserError(f"{path}: has {least} rounds, not {rounds}; delete it to measure it again")
    return True


def measure(
    program: Program, path: Path, core: str, args: argparse.Namespace, environment: dict[str, str]
) -> str | None:
    """Measure one program in a process of its own; returns one line if that failed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    settings = {
        **vars(args),
        "name": program.name,
        "source": program.source,
        "module": program.path,
        "output": path,
    }
    text = json.dumps(settings, default=str)  # of paths
    done = subprocess.run(
        ["taskset", "-c", core, sys.executable, "-m", "lib.collect.xla.measure", text],
        env=environment,
        capture_output=True,
        text=True,
        preexec_fn=end_with_parent,
    )
    if done.returncode == 0 and path.exists():
        return None
    lines = (done.stderr or "").strip().splitlines() or [f"exit code {done.returncode}"]
    return f"{program.name}: {lines[-1].removeprefix('error: ')}"


if __name__ == "__main__":
    with one_line_errors():
        main()
