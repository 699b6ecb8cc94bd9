"""``make collect KIND=programs``: measure tensor programs on this machine's CPU with TVM.

Networks become tasks (:mod:`.extract`); tasks become programs, in the first round under random
schedules and later under descendants of the fastest; and each program is compiled for every device
and timed (:mod:`.measure`). Work is done by one process after
the other on one core; a kill loses some seconds of it, and the same command goes on.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from tqdm import tqdm

from lib.collect.tvm import plan, raw
from lib.collect.tvm.networks import TEST, all_networks, chosen_networks
from lib.collect.tvm.slow import slow_jobs
from lib.files.artifacts import read_json, write_json
from lib.files.children import end_with_parent
from lib.files.command_line import Parser, check_least
from lib.files.errors import UserError, one_line_errors
from lib.files.processor import INSTRUCTIONS, check_has, cores_of, processor
from lib.programs.messages import NATIVE, last_words

DEFAULT_PHASES, DEVICES = "main,again,plain", "devices.json"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = Parser(prog="python -m lib.collect.tvm", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("outputs/collect-programs"))
    parser.add_argument("--networks", default="*", help="comma-separated names or patterns")
    parser.add_argument("--tasks", type=Path, help="a file of tasks' names: measure no other tasks")
    parser.add_argument("--rounds", type=int, default=5, help="rounds over all tasks")
    parser.add_argument(
        "--first-round", type=int, default=0, help="where to begin, counting from 0"
    )
    parser.add_argument("--programs", type=int, default=8, help="programs of a task in a round")
    sets = f"{NATIVE} (all that this processor has) or {', '.join(INSTRUCTIONS)}"
    parser.add_argument("--devices", default=NATIVE, help=f"instruction sets, of {sets}")
    parser.add_argument("--phases", default=DEFAULT_PHASES, help=f"of {', '.join(raw.PHASES)}")
    core = max(os.sched_getaffinity(0))
    parser.add_argument("--core", type=int, default=core, help="to compile and to time on")
    parser.add_argument(
        "--realtime", action="store_true", help="time at real-time priority (needs privileges)"
    )
    parser.add_argument(
        "--repeat-slow",
        action="store_true",
        help="time jobs again during which the machine was slow; the better times are kept",
    )
    parser.add_argument("--list", action="store_true", help="name the networks and stop")
    return parser.parse_args()


def main() -> None:
    """Extract what is new, then do the jobs that have no result yet."""
    args = arguments()
    networks = chosen_networks(args.networks)
    if args.list:
        print("\n".join(n.name for n in networks))
        return
    phases = args.phases.split(",")
    if unknown := sorted(set(phases) - set(raw.PHASES)):
        raise UserError(f"--phases {unknown[0]}: choose from {', '.join(raw.PHASES)}")
    check_devices(args.devices.split(","))
    among = plan.named_tasks(args.tasks) if args.tasks else None
    check_least(args, programs=1, rounds=1, first_round=0)
    cores_of("--core", str(args.core))
    remember(args.output / DEVICES, args.devices)
    extract(args)
    names = [network.name for network in networks]
    tasks = plan.chosen_tasks(args.output, names, among)
    search: list[str] = []
    if len(networks) == len(all_networks()):
        calls = plan.networks_of(args.output)
        tested = {task for name in TEST for task in calls[name]}
        search = plan.searched(args.output, plan.tasks_of(args.output), tested)
    tasks = sorted(set(tasks) - set(search))
    slow = slow_jobs(args.output, phases, processor()) if args.repeat_slow else set()
    again = f", {len(slow)} slow jobs once more" if args.repeat_slow else ""
    print(f"collect: {len(tasks)} tasks of {len(names)} networks{again}", flush=True)
    for jobs in tqdm(
        list(plan.chunks(phases, range(args.first_round, args.rounds), tasks, search)),
        unit="process",
        disable=None,
    ):
        measure(args, jobs, slow)
    print(summary(args.output))


def check_devices(devices: list[str]) -> None:
    """The instruction sets to measure must be such as this processor has.

    Raises:
        UserError: one is unknown, or this processor lacks it.
    """
    for device in devices:
        if device not in (NATIVE, *INSTRUCTIONS):
            choices = ", ".join((NATIVE, *INSTRUCTIONS))
            raise UserError(f"--devices {device}: choose from {choices}")
        check_has("--devices", device)


def remember(path: Path, devices: str) -> None:
    """Note for which devices a work folder's programs are, since a job is done for all at once.

    Raises:
        UserError: they are for others.
    """
    if not path.exists():
        write_json(path, devices)
    if (before := read_json(path)) != devices:
        elsewhere = "another --output (OUTPUTS= of make) measures these"
        raise UserError(f"--devices {devices}: {path.parent} measures {before}; {elsewhere}")


def extract(args: argparse.Namespace) -> None:
    """Tasks of the networks, in a process of its own: torch is not needed afterwards."""
    command = [sys.executable, "-m", "lib.collect.tvm.extract", str(args.output), args.networks]
    done = subprocess.run(
        ["taskset", "-c", str(args.core), *command],
        stderr=subprocess.PIPE,  # TVM has much to say there
        text=True,
        preexec_fn=end_with_parent,
    )
    if done.returncode:
        reason = last_words(done.returncode, done.stderr)
        raise UserError(f"the networks could not be read: {reason}")


def measure(args: argparse.Namespace, jobs: list[plan.Job], slow: set[plan.Job]) -> None:
    """Have jobs done by one process; a job that brings it down is given up, the rest goes on."""
    while todo := plan.to_do(args.output, jobs, slow):
        threads = 2 if todo[0][0] == "threads" else 1
        other = min(os.sched_getaffinity(0) - {args.core}, default=args.core)
        cores = f"{args.core},{other}" if threads == 2 else str(args.core)
        command = [sys.executable, "-m", "lib.collect.tvm.measure", str(args.output)]
        for flag in ("core", "devices", "programs"):
            command += [f"--{flag}", str(getattr(args, flag))]
        command += ["--threads", str(threads), *(["--realtime"] if args.realtime else [])]
        done = subprocess.run(
            ["taskset", "-c", cores, *command],
            input="".join(f"{phase} {turn} {task}\n" for phase, turn, task in todo),
            env={**os.environ, "TVM_NUM_THREADS": str(threads), "OMP_NUM_THREADS": "1"},
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
        for line in started:
            phase, turn, task = line.split()
            slow.discard((phase, int(turn), task))
        given_up = raw.failed(args.output, phase, int(turn), task)
        write_json(given_up, {"error": reason})


def summary(work: Path) -> str:
    """How much there is, in one line."""
    counts = {p: len(list((work / "raw" / p).glob("*/*.npz"))) for p in raw.PHASES}
    failed = len(list((work / "raw").glob("*/*/*.failed")))
    done = ", ".join(f"{n} {phase}" for phase, n in counts.items() if n)
    told = f"{failed} failed"
    if failed:
        told += f" (a file that ends in {raw.FAILED} says why; without it, the job is tried again)"
    return f"collect: jobs done in {work}/: {done or 'none'}; {told}"


if __name__ == "__main__":
    with one_line_errors():
        main()
