"""Run make, with the commands of the stages on a cluster: what ``make all EXECUTOR=ray`` starts.

Make runs as it does on one machine, so that what depends on what, what is up to date and in which
order things are made is Make's to know, and written once. Only where it would run a stage it hands
the command over (:mod:`lib.cluster.hand`) and waits for it.

    .venv-cluster/bin/python -m lib.cluster ray --make 'make FOLDS=5' all
"""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from lib import INTERRUPTED_CODE
from lib.cluster.executors import executor_for
from lib.cluster.handing import Hand
from lib.files.command_line import Parser
from lib.files.errors import exit_because_of, one_line_errors
from lib.files.locks import FOLDER
from lib.runs.submake import environment_of_make

OWN_SECONDS = 2  # that make has to end by itself when this process is interrupted
SOCKET = "TGRAPH_TASKS"  # of the environment: by which make knows that there is somebody to hand to


def main(arguments: list[str] | None = None) -> None:
    """Run make to its end, and end with its exit code."""
    args = _parsed(arguments)
    jobs = args.outputs.resolve() / FOLDER / f"jobs-{os.uname().nodename}-{os.getpid()}"
    executor = executor_for(args.executor, jobs, args.minutes)
    try:
        with tempfile.TemporaryDirectory(prefix="tgraph-") as folder:
            address = Path(folder, "tasks")
            with Hand(address, executor, args.outputs) as server:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                make = [*shlex.split(args.make), f"JOBS={args.jobs or executor.jobs}"]
                code = run_make([*make, *args.goals], address)
                server.shutdown()
    finally:
        executor.close()
    if code == -signal.SIGINT:
        exit_because_of(KeyboardInterrupt())
    sys.exit(code)


def _parsed(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(prog="python -m lib.cluster", description=__doc__.partition("\n")[0])
    parser.add_argument("executor", choices=("ray", "slurm", "local"))
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="where results go")
    parser.add_argument("--make", default="make", help="the command, in shell words")
    parser.add_argument("--jobs", type=int, help="tasks at a time (default: all that are ready)")
    parser.add_argument("--minutes", type=int, default=1440, help="of a job of Slurm")
    parser.add_argument("goals", nargs="+", help="what make is to make")
    return parser.parse_args(arguments)


def run_make(line: list[str], address: Path) -> int:
    """Make's exit code; minus SIGINT if it was interrupted, by whomever.

    If only this process is interrupted, make is ended, and ends what it waits for, and with that
    what was handed over. (A terminal tells all; make, told of that, waits for what it has started.)
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # Ray has put its own handler there
    environment = {**environment_of_make(), SOCKET: str(address)}
    make = subprocess.Popen(line, env=environment, stderr=sys.stderr)
    interrupted, patience = False, None
    while True:
        try:
            code = make.wait(patience)
            break
        except KeyboardInterrupt:
            interrupted, patience = True, OWN_SECONDS
        except subprocess.TimeoutExpired:
            make.terminate()
            patience = None
    return -signal.SIGINT if interrupted or code in (INTERRUPTED_CODE, -signal.SIGINT) else code


if __name__ == "__main__":
    with one_line_errors():
        main()
