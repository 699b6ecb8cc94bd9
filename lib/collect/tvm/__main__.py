"""``make collect KIND=programs``: measure tensor programs on this machine's CPU with TVM.

Networks become tasks (:mod:`.extract`); tasks become programs, in the first round under random
schedules and later under descendants of the fastest; and each program is compiled for a device and
timed (:mod:`.measure`). Work is done by one process after the other on one core; a kill loses
some seconds of it, and the same command goes on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from lib.collect.tvm import plan, raw
from lib.files.artifacts import read_json, write_json
from lib.files.children import end_with_parent
from lib.files.command_line import Parser, check_least
from lib.files.errors import UserError, one_line_errors
from lib.files.processor import INSTRUCTIONS, LARGE_PAGES, check_has, cores_of
from lib.files.progress import Lines
from lib.programs.messages import NATIVE, last_words

DEVICE = "devices.json"


def arguments() -> argparse.Namespace:
    """Return what the command line says."""
    parser = Parser(prog="python -m lib.collect.tvm", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("outputs/collect-programs"))
    networks = "names or patterns of bundled networks, hashes of their tasks, or names of your own"
    parser.add_argument("--networks", default="*", help=f"comma-separated {networks}")
    parser.add_argument("--rounds", type=int, default=5, help="rounds over all tasks")
    parser.add_argument("--programs", type=int, default=8, help="programs of a task in a round")
    sets = f"{NATIVE} (all that this processor has) or {', '.join(INSTRUCTIONS)}"
    parser.add_argument("--device", default=NATIVE, help=f"set of instructions: {sets}")
    once = "time nothing in a second process, which shows the noise"
    parser.add_argument("--once", action="store_true", help=once)
    core = max(os.sched_getaffinity(0))
    parser.add_argument("--core", type=int, default=core, help="to compile and to time on")
    parser.add_argument("--list", action="store_true", help="name the bundled networks and stop")
    return parser.parse_args()


def main() -> None:
    """Extract the tasks, then do the jobs that have no result yet."""
    args = arguments()
    if args.list:
        print("\n".join(plan.bundled()[0]))
        return
    check_device(args.device)
    check_least(args, programs=1, rounds=1)
    cores_of("--core", str(args.core))
    remember(args.output / DEVICE, args.device)
    names = extract(args)
    tasks = plan.eligible_tasks(args.output, names)
    print(f"collect: {len(tasks)} tasks of {len(names)} networks", flush=True)
    chunks = list(plan.chunks(range(args.rounds), tasks, args.once))
    for jobs in Lines("collect", len(chunks), "part").over(chunks):
        measure(args, jobs)
    print(summary(args.output))


def check_device(device: str) -> None:
    """Raise a UserError for a set of instructions that is unknown, or that this processor lacks."""
    if device not in (NATIVE, *INSTRUCTIONS):
        choices = ", ".join((NATIVE, *INSTRUCTIONS))
        raise UserError(f"--device {device}: choose from {choices}")
    check_has("--device", device)


def remember(path: Path, device: str) -> None:
    """Note for which device a work folder's programs are; raises a UserError if for another."""
    if not path.exists():
        write_json(path, device)
    if (before := read_json(path)) != device:
        elsewhere = "another --output (OUTPUTS= of make) measures this one"
        raise UserError(f"--device {device}: {path.parent} measures {before}; {elsewhere}")


def extract(args: argparse.Namespace) -> list[str]:
    """Write the networks and their tasks; networks of one's own are read by another process.

    Raises:
        UserError: no bundled network is of such a name, or another one cannot be read.
    """
    names = [name for name in args.networks.split(",") if name]
    own = [name for name in names if ":" in name or Path(name).suffix in (".onnx", ".pt2")]
    names = plan.write_bundled(args.output, [name for name in names if name not in own])
    if not names + own:
        raise UserError(f"--networks {args.networks!r}: no network matches; --list names them")
    if own:
        command = [sys.executable, "-m", "lib.collect.tvm.extract", str(args.output), *own]
        done = subprocess.run(
            ["taskset", "-c", str(args.core), *command],
            stderr=subprocess.PIPE,  # where TVM warns
            text=True,
            preexec_fn=end_with_parent,
        )
        if done.returncode:
            reason = last_words(done.returncode, done.stderr)
            raise UserError(f"the networks could not be read: {reason}")
    return names + own


def measure(args: argparse.Namespace, jobs: list[plan.Job]) -> None:
    """Have jobs done by one process; a job that brings it down is given up, the rest goes on."""
    while todo := plan.to_do(args.output, jobs):
        command = [sys.executable, "-m", "lib.collect.tvm.measure", str(args.output)]
        command += ["--device", args.device, "--programs", str(args.programs)]
        done = subprocess.run(
            ["taskset", "-c", str(args.core), *command],
            input="".join(f"{phase} {turn} {task}\n" for phase, turn, task in todo),
            env={**LARGE_PAGES, **os.environ, "TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            preexec_fn=end_with_parent,
        )
        if done.returncode == 0:
            return
        started = done.stdout.splitlines()
        reason = last_words(done.returncode, done.stderr)
        if not started:
            raise UserError(f"measuring does not start: {reason}")
        phase, turn, task = started[-1].split()
        given_up = raw.failed(args.output, phase, int(turn), task)
        write_json(given_up, {"error": reason})


def summary(work: Path) -> str:
    """Return how much there is, in one line."""
    counts = {p: len(list((work / "raw" / p).glob("*/*.npz"))) for p in raw.PHASES}
    failed = len(list((work / "raw").glob("*/*/*.failed")))
    done = ", ".join(f"{n} {phase}" for phase, n in counts.items() if n)
    said = f"{failed} failed"
    if failed:
        said += f" (a file that ends in {raw.FAILED} says why; without it, the job is tried again)"
    return f"collect: jobs done in {work}/: {done or 'none'}; {said}"


if __name__ == "__main__":
    with one_line_errors():
        main()
