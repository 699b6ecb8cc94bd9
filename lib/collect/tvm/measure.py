"""A process that measures: reads jobs from standard input, one a line, and writes a file of each.

Started by :mod:`lib.collect.tvm.__main__` with the environment already set. A job is ``phase round
task``; a phase is one of :data:`lib.collect.tvm.raw.PHASES`.
"""

from __future__ import annotations

import argparse
import gc
import signal
import sys
import time
import uuid
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
import tvm_ffi

from lib.collect.tvm import compiler, raw, tasks
from lib.collect.tvm.running import clock_on
from lib.collect.tvm.timing import Arena, Run, Stopwatch
from lib.files.artifacts import write_json
from lib.files.command_line import Parser
from lib.files.processor import processor

PAUSE_SECONDS = 0.5  # between readings when there is nothing left to compile


@dataclass
class Pending:
    """A job whose programs are compiled, until all of their readings are there."""

    place: Path
    fields: dict[str, Any]
    about: dict[str, Any]
    watch: Stopwatch
    arena: Arena
    shape: tuple[int, int]  # devices, programs

    def write(self) -> None:
        """Write what was read, unless it was read before at a better moment."""
        timed = {
            "seconds": self.watch.seconds.reshape(*self.shape, -1),
            "check": self.watch.checks.reshape(*self.shape, -1),
            "reference": self.watch.reference,
        }
        best = float(np.nanmin(self.watch.reference))
        if not self.place.exists() or best < raw.read(self.place).best_reference:
            raw.write(self.place, {**self.fields, **timed}, self.about)


class Bench:
    """What stays the same from job to job."""

    def __init__(self, settings: argparse.Namespace):
        self.settings, self.work = settings, settings.work
        self.devices = settings.devices.split(",")
        single = settings.threads == 1  # several are left where TVM puts them
        self.clock = clock_on(settings.core if single else None, settings.realtime)
        self.about = {
            "process": uuid.uuid4().hex[:12],
            "processor": processor(),
            "threads": settings.threads,
            "devices": [[name, compiler.MCPU[name]] for name in self.devices],
            "opt_level": compiler.OPT_LEVEL,
            "tvm": tvm.__version__,
            "tvm_ffi": tvm_ffi.__version__,
            "unroll_steps": list(compiler.UNROLL_STEPS),
            "vector_lanes": compiler.MOST_VECTOR_LANES,
        }

    def prepare(self, phase: str, turn: int, task: str) -> Pending:
        """Draw or rebuild a job's programs and compile them for each device."""
        about, module = tasks.load(self.work, task)
        modules, fields = self.programs(phase, turn, task, module)
        arena = Arena()
        args = arena.arguments(task, about)
        libraries = []
        if modules:
            lowered = compiler.lowered(modules)
            libraries = [compiler.machine_program(lowered, device) for device in self.devices]
        runs = [
            Run(library, f"f{k}", (args,)) for library in libraries for k in range(len(modules))
        ]
        job = {"task": task, "round": turn, "phase": phase, "measured_at": now()}
        place = raw.path(self.work, phase, turn, task)
        shape = len(self.devices), len(modules)
        watch = Stopwatch(runs, [args[k] for k in compiler.outputs_of(module)])
        return Pending(place, fields, self.about | job, watch, arena, shape)

    def programs(self, phase: str, turn: int, task: str, module) -> tuple[list, dict[str, Any]]:
        """A job's programs, and what its file has beside times; those of a file that is there."""
        place = raw.path(self.work, phase, turn, task)
        if phase == "plain":
            return [module], raw.described([module], [task], [""])
        if phase in raw.REPEATING:
            first = raw.read(raw.path(self.work, raw.REPEATING[phase], turn, task))
            fields: dict[str, Any] = {"hash": first.hash}
        elif place.exists():
            first = raw.read(place)
            untimed = {name: a for name, a in first.arrays.items() if name not in raw.TIMED}
            fields = {"hash": first.hash, **untimed}
        else:
            scheduled = self.drawn(phase, turn, task, module)
            modules = [program.module for program in scheduled]
            hashes, traces = [p.hash for p in scheduled], [p.trace for p in scheduled]
            return modules, raw.described(modules, hashes, traces)
        return [compiler.rebuilt(module, trace) for trace in first.traces], fields

    def drawn(self, phase: str, turn: int, task: str, module) -> list[compiler.Scheduled]:
        """The programs of one round, none of them in an earlier one that is in this folder."""
        seen = set()
        for before in range(turn):
            path = raw.path(self.work, phase, before, task)
            if path.exists():
                seen.update(raw.read(path).hash.tolist())
        seed = zlib.crc32(f"{phase}:{task}:{turn}".encode())
        return compiler.Sampler(module, seed).distinct(self.settings.programs, seen)

    def visit(self, pending: list[Pending]) -> list[Pending]:
        """One reading of all; what is complete is written, the rest returned."""
        self.clock.visit([job.watch for job in pending])
        for job in pending:
            if job.watch.done:
                job.write()
        return [job for job in pending if not job.watch.done]


def now() -> str:
    """The time, as ISO 8601 in UTC."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def main() -> None:
    """Do the jobs on standard input; a job that fails leaves a ``.failed`` file that says why."""
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--core", type=int, required=True)
    parser.add_argument("--devices", required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--programs", type=int, required=True)
    parser.add_argument("--realtime", action="store_true")
    settings = parser.parse_args()
    bench = Bench(settings)
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # ends this process, whatever it is doing
    limit = raw.LIMIT_SECONDS * settings.programs * len(bench.devices)
    pending: list[Pending] = []
    for line in sys.stdin:
        phase, turn, task = line.split()
        print(line.strip(), flush=True)
        signal.setitimer(signal.ITIMER_REAL, limit)
        try:
            pending.append(bench.prepare(phase, int(turn), task))
        except Exception as error:  # of TVM or LLVM, whatever its kind: the next job goes on
            reason = " ".join(str(error).split())[:500]
            write_json(raw.failed(settings.work, phase, int(turn), task), {"error": reason})
        pending = bench.visit(pending)
    while pending:
        signal.setitimer(signal.ITIMER_REAL, limit)
        time.sleep(PAUSE_SECONDS)
        pending = bench.visit(pending)
    signal.setitimer(signal.ITIMER_REAL, 0)


if __name__ == "__main__":
    main()
