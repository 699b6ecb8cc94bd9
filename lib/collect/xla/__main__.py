"""``make collect``: measure layout data on this machine's XLA:CPU.

Each program is measured by a process of its own (:mod:`lib.collect.xla.measure`), pinned to one
core, and becomes one file in the output folder. A kill loses some minutes of one program;
``--resume`` goes on with the rest, and adds rounds to a program that has fewer than are asked for.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from fnmatch import fnmatch
from pathlib import Path
from queue import SimpleQueue

import numpy as np
from tqdm import tqdm

from lib.collect.xla import size
from lib.collect.xla.enough import FEWEST, KERNELS, ROUNDS, RUNS, missing_rounds
from lib.collect.xla.zoo import ZooProgram, all_programs
from lib.files.artifacts import atomic_file, remove_leftovers
from lib.files.believing import believing
from lib.files.children import end_with_parent
from lib.files.command_line import Parser
from lib.files.errors import UserError, one_line_errors
from lib.files.processor import cores_of

# The allocator keeps big temporaries instead of returning them to the system after every run,
# which otherwise makes the same program read 2.3 or 2.9 ms by the state of the process.
ENVIRONMENT = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
    "MALLOC_TOP_PAD_": str(1 << 28),
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false --xla_backend_optimization_level=1",
    "JAX_PLATFORMS": "cpu",
    "JAX_CPU_ENABLE_ASYNC_DISPATCH": "0",  # run in the thread that times, not in a pool's
    "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "0",  # a program is the same wherever it is called from
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    "OMP_NUM_THREADS": "1",
}
COMPILED = ".compiled"  # JAX's cache in the output folder: more rounds need no compiling


def time_here(module: str, core: int) -> None:
    """Have this process time on one core in ``ENVIRONMENT``; starts it anew where it has another.

    Args:
        module: that runs, such as ``tests.bench.pairs``.
        core: that it stays on.
    """
    if any(os.environ.get(name) != value for name, value in ENVIRONMENT.items()):
        os.environ |= ENVIRONMENT  # which is read when a process starts
        os.execv(sys.executable, [sys.executable, "-m", module, *sys.argv[1:]])
    os.sched_setaffinity(0, {core})  # XLA takes a thread for each core that it sees


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = Parser(prog="python -m lib.collect.xla", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("outputs/collect"))
    parser.add_argument("--cores", default="1", help="one collector timing on each, such as 0,1")
    parser.add_argument("--compile-cores", help="where all compile, such as 0,1; else as --cores")
    parser.add_argument("--nice", type=int, default=0, help="niceness while compiling, such as 19")
    parser.add_argument("--programs", default="*", help="comma-separated names or patterns")
    _add_rounds(parser)
    _add_worth(parser)
    parser.add_argument("--round-seconds", type=float, default=0.006, help="of runs in one round")
    parser.add_argument("--random", type=int, default=50, help="random configurations a program")
    parser.add_argument("--genetic", type=int, default=34, help="genetic configurations a program")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quiet-lock", type=Path, help="file to hold a lock on while timing")
    parser.add_argument(
        "--clear-core",
        default="",
        metavar="NAMES",
        help="while timing, keep processes whose command begins so off the core: python,make,...",
    )
    parser.add_argument("--resume", action="store_true", help="keep what is measured, do the rest")
    parser.add_argument("--list", action="store_true", help="name the programs and stop")
    args = parser.parse_args()
    args.rounds = ROUNDS[args.timed_by] if args.rounds is None else args.rounds
    return args


def _add_rounds(parser: Parser) -> None:
    """How often a configuration is timed (:mod:`lib.collect.xla.enough`)."""
    parser.add_argument(
        "--timed-by",
        choices=(RUNS, KERNELS),
        default=RUNS,
        help="whole runs; or the sum of a program's kernels, for a machine whose clock is noisy",
    )
    parser.add_argument(
        "--rounds", type=int, help="a configuration's; default 24 of runs, 4 of kernels"
    )
    parser.add_argument("--most-rounds", type=int, default=0, help="while --ceiling is not reached")
    parser.add_argument(
        "--ceiling",
        type=float,
        default=0.0,
        help="go on until halves of the rounds agree so well: Kendall's tau, such as 0.9",
    )


def _add_worth(parser: Parser) -> None:
    """Which programs are not worth measuring (:mod:`lib.collect.xla.size`)."""
    parser.add_argument("--least-ms", type=float, default=0.0, help="leave out what runs shorter")
    parser.add_argument("--most-ms", type=float, default=1e9, help="leave out what runs longer")
    parser.add_argument(
        "--compile-seconds",
        type=float,
        default=1e9,
        help="of the CPU: leave out what takes more for a configuration",
    )
    parser.add_argument(
        "--least-spread",
        type=float,
        default=1.0,
        help="leave out what layouts change less: slowest over fastest of the first nine",
    )


def main() -> None:
    """Measure every chosen program that has no file of enough rounds yet."""
    args = arguments()
    programs = chosen_programs(args.programs)
    if args.list:
        print("\n".join(f"{p.source}  {p.name}" for p in programs))
        return
    if args.rounds < (fewest := FEWEST[args.timed_by]):
        raise UserError(f"--rounds {args.rounds}: at least {fewest}, or labels are noise")
    todo = [
        p
        for p in programs
        if unfinished(measured_file(args.output, p), args)
        and not unfit_file(args.output, p).exists()
    ]
    if not args.resume and any(measured_file(args.output, p).exists() for p in programs):
        raise UserError(f"{args.output} has measurements: add --resume to go on, or empty it")
    failures = collect(todo, args)
    unfit = sum(unfit_file(args.output, program).exists() for program in programs)
    print(
        f"collect: {len(programs) - unfit - len(failures)} of {len(programs)} programs measured in "
        f"{args.output}/"
        + (f", {unfit} left out (a .unfit file says why)" if unfit else "")
        + "".join(f"\n  failed: {f}" for f in failures)
    )
    if failures:
        sys.exit(1)


def chosen_programs(patterns: str) -> list[ZooProgram]:
    """The zoo's programs that match any of the comma-separated ``patterns``, in zoo order."""
    globs = patterns.split(",")
    programs = [p for p in all_programs() if any(fnmatch(p.name, glob) for glob in globs)]
    if not programs:
        raise UserError(f"--programs {patterns!r}: no program matches; --list names them")
    return programs


def measured_file(output: Path, program: ZooProgram) -> Path:
    """Where a program's measurements go."""
    return output / program.source / f"{program.name}.npz"


def unfit_file(output: Path, program: ZooProgram) -> Path:
    """Where it says why a program was left out; remove it, and the program is tried again."""
    return measured_file(output, program).with_suffix(".unfit")


def unfinished(path: Path, args: argparse.Namespace) -> bool:
    """Whether a raw file is not there, or wants more rounds."""
    if not path.exists():
        return True
    whole = "what make collect wrote; delete it, and it is measured again"
    with believing(path, "file", whole), np.load(path, allow_pickle=False) as file:
        return missing_rounds(file["rounds"], file["search"], args) > 0


def collect(programs: list[ZooProgram], args: argparse.Namespace) -> list[str]:
    """Measure ``programs``, one at a time on each core; returns a line for each failure."""
    cores: SimpleQueue[str] = SimpleQueue()
    names = cores_of("--cores", args.cores)
    cores_of("--compile-cores", args.compile_cores or args.cores)
    for core in names:
        cores.put(core)

    def run(program: ZooProgram) -> str | None:
        core = cores.get()
        try:
            return measure(program, core, args)
        finally:
            cores.put(core)

    with ThreadPoolExecutor(len(names)) as pool:
        futures = [pool.submit(run, program) for program in programs]
        bar = tqdm(as_completed(futures), total=len(futures), unit="program", disable=None)
        return [f.result() for f in bar if f.result() is not None]


def measure(program: ZooProgram, core: str, args: argparse.Namespace) -> str | None:
    """Measure one program in a process of its own; returns one line if that failed."""
    path = measured_file(args.output, program)
    path.parent.mkdir(parents=True, exist_ok=True)
    remove_leftovers(path)
    command = [sys.executable, "-m", "lib.collect.xla.measure", program.name, str(path)]
    flags = ("rounds", "most_rounds", "ceiling", "round_seconds", "random", "genetic", "seed")
    for flag in (*flags, "timed_by", "nice", "clear_core", *size.SETTINGS):
        command += ["--" + flag.replace("_", "-"), str(getattr(args, flag))]
    command += ["--core", core, "--compile-cores", args.compile_cores or core]
    if args.quiet_lock is not None:
        command += ["--quiet-lock", str(args.quiet_lock)]
    done = subprocess.run(
        ["taskset", "-c", core, *command],
        env={
            **os.environ,
            **ENVIRONMENT,
            "JAX_COMPILATION_CACHE_DIR": str((args.output / COMPILED).resolve()),
        },
        capture_output=True,
        text=True,
        preexec_fn=end_with_parent,
    )
    if done.returncode == 0 and path.exists():
        return None
    lines = (done.stderr or "").strip().splitlines() or ["no message"]
    if done.returncode == size.UNFIT:
        with atomic_file(unfit_file(args.output, program)) as temporary:
            temporary.write_text(f"{lines[-1]}\n")
        return None
    return f"{program.name}: {lines[-1]}"


if __name__ == "__main__":
    with one_line_errors():
        main()
