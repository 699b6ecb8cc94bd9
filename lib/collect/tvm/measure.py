"""A process that measures: reads jobs from standard input, one a line, and writes a file of each.

Started by :mod:`lib.collect.tvm.__main__` with the environment already set. A job is ``phase round
task``; a phase is one of :data:`lib.collect.tvm.raw.PHASES`.
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm.ir import IRModule
from tvm.s_tir import Schedule

from lib.collect.tvm import compiler, plan, raw
from lib.collect.tvm.plain import begun
from lib.collect.tvm.running import LIMIT_SECONDS, Batch
from lib.files.artifacts import read_json, write_json
from lib.files.command_line import Parser
from lib.files.errors import UserError
from lib.files.processor import instruction_sets, processor
from lib.programs.messages import NATIVE

PAUSE_SECONDS = 0.5  # between readings when there is nothing left to compile


@dataclass
class Pending:
    """A job whose programs are compiled, until all of their readings are there."""

    place: Path
    programs: list[Schedule]
    metadata: dict[str, Any]
    batch: Batch

    def write(self) -> None:
        """Write the programs that run; raises a UserError if none does."""
        if not self.batch.running:
            raise UserError("no program of it compiles and runs")
        readings = self.batch.readings
        timed = {"seconds": readings.seconds[None], "check": readings.checks[None]}  # of one device
        programs = [self.programs[k] for k in self.batch.running]
        fields = raw.hashed if self.metadata["phase"] == "again" else raw.scheduled
        raw.write(self.place, fields(programs) | timed, self.metadata)


class Bench:
    """The settings and the device, the same for all jobs."""

    def __init__(self, settings: argparse.Namespace):
        self.settings, self.work = settings, settings.work
        name = settings.device
        known = instruction_sets()[-1] if name == NATIVE else name
        self.metadata = {
            "processor": processor(),
            "threads": 1,
            "devices": [[known, compiler.mcpu_of(name)]],
            "opt_level": compiler.OPT_LEVEL,
            "tvm": tvm.__version__,
        }

    def prepare(self, phase: str, turn: int, task: str) -> Pending:
        """Draw or rebuild a job's programs, which are compiled for the device."""
        module, footprint = load(self.work, task)
        programs = self.programs(phase, turn, task, module)
        batch = Batch(
            task,
            [program.mod for program in programs],
            self.settings.device,
            limit=LIMIT_SECONDS,
            footprint=footprint,
        )
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        job = {"task": task, "round": turn, "phase": phase, "measured_at": now}
        place = raw.path(self.work, phase, turn, task)
        return Pending(place, programs, {**self.metadata, **job, "footprint": footprint}, batch)

    def programs(self, phase: str, turn: int, task: str, module) -> list[Schedule]:
        """Return a job's programs."""
        if phase != "again":
            return self.drawn(phase, turn, task, module)
        known = raw.read(raw.path(self.work, "main", turn, task))
        return [compiler.rebuilt(module, trace) for trace in known.traces]

    def drawn(self, phase: str, turn: int, task: str, module) -> list[Schedule]:
        """Return the programs of one round, none of them in another one that is in this folder.

        Those of the first round are what a search begins with, tiles that registers hold or a task
        by lines, rows and columns, and random ones. Later ones descend from the fastest that are
        there, as what is deployed does, as far as there are enough such.
        """
        first = raw.path(self.work, phase, 0, task)
        earlier = [raw.read(path) for path in sorted(first.parents[1].glob(f"*/{first.name}"))]
        seen = {name for measured in earlier for name in measured.hash.tolist()}
        sampler = compiler.Sampler(module, plan.seed_of(phase, turn, task))
        programs: list[Schedule] = []
        if earlier and phase == "main":
            fastest = sorted(
                timed
                for measured in earlier
                for timed in zip(measured.fastest[-1].tolist(), measured.traces, strict=True)
            )[: compiler.PARENTS]
            parents = [(compiler.rebuilt(module, trace), taken) for taken, trace in fastest]
            programs = sampler.bred(parents, self.settings.programs, seen)
        elif phase == "main":
            first = begun(sampler, self.settings.device)[: self.settings.programs // 2]
            programs = compiler.new(first, seen)
        return programs + sampler.distinct(self.settings.programs - len(programs), seen)

    def visit(self, pending: list[Pending]) -> list[Pending]:
        """Read all once; write the jobs that are complete, and return the rest."""
        left = []
        for job in pending:
            try:
                if not job.batch.visit():
                    left.append(job)
                    continue
                job.write()
            except Exception as error:
                give_up(job.place, error)
        return left


def load(work: Path, task: str) -> tuple[IRModule, int]:
    """Return the unscheduled module of a task in the work folder, and its footprint."""
    metadata = read_json(plan.task_path(work, task))
    return tvm.ir.load_json(metadata["module"]), metadata["footprint"]


def give_up(place: Path, error: Exception) -> None:
    """Note why a job cannot be done; it may be of TVM or LLVM, whatever its kind."""
    reason = " ".join(str(error).split())[:500]
    write_json(place.with_suffix(raw.FAILED), {"error": reason})


def main() -> None:
    """Do the jobs on standard input; a job that fails leaves a ``.failed`` file that says why."""
    parser = Parser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=Path)
    parser.add_argument("--device", required=True)
    parser.add_argument("--programs", type=int, required=True)
    settings = parser.parse_args()
    bench = Bench(settings)
    gc.collect()
    gc.freeze()
    pending: list[Pending] = []
    for line in sys.stdin:
        phase, turn, task = line.split()
        print(line.strip(), flush=True)
        try:
            pending.append(bench.prepare(phase, int(turn), task))
        except Exception as error:
            give_up(raw.path(settings.work, phase, int(turn), task), error)
        pending = bench.visit(pending)
    while pending:
        time.sleep(PAUSE_SECONDS)
        pending = bench.visit(pending)


if __name__ == "__main__":
    main()
