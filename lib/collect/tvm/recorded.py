"""What a search has measured on this machine, as raw files: a tuning database of MetaSchedule.

    python -m lib.collect.tvm.recorded resnet18 outputs/programs-cpu/search/resnet18.native WORK

The database is that of ``make search``, or somebody's own of a network as that deploys it. Records
of other tasks, of other targets and of programs that failed are left out, and counted.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import tvm

from lib.collect.tvm import compiler, raw, tasks
from lib.collect.tvm.asked import named
from lib.collect.tvm.database import RECORDS, TuningDatabase, copied
from lib.collect.tvm.extract import extract
from lib.collect.tvm.measure import now, set_of
from lib.collect.tvm.timing import VISITS
from lib.files.artifacts import read_json
from lib.files.command_line import Parser
from lib.files.errors import DataError, one_line_errors
from lib.files.processor import processor
from lib.programs.messages import NATIVE, file_name


def recorded(network: str, batch: int | None, folder: Path, device: str, work: Path) -> Counter:
    """Write a raw file for each task of a network that a database has programs of.

    Args:
        network, batch: which, as :func:`named` has it.
        folder: of the database.
        device: instruction set that its programs were compiled for, or native.
        work: where the files go; their programs are those of the phase ``found``.

    Returns:
        How many records were taken, and how many left out, by why.

    Raises:
        DataError: it has no program of the network that runs.
    """
    counts: Counter[str] = Counter()
    with copied(folder) as copy:
        asked = named(network, batch)
        asked = replace(asked, name=file_name(asked.name))
        path = tasks.network_path(work, asked.name)
        path.unlink(missing_ok=True)  # of another batch, or of the user's file as it was
        extract(asked, work)
        every = len((copy / RECORDS).read_text().splitlines())
        database = TuningDatabase(copy, device, folder)
        for row in read_json(path)["tasks"]:
            _, module = tasks.load(work, row["task"])
            programs = database.programs(module)
            counts["taken"] += len(programs)
            counts["failed"] += int(np.isnan(database.measured(module)).sum())
            if programs:
                _write(work, row["task"], programs, device)
    counts["of other tasks or targets"] = every - counts["taken"] - counts["failed"]
    if not counts["taken"]:
        raise DataError(folder, RECORDS, f"no program of {network} for {device}", "some that run")
    return counts


def _write(
    work: Path, task: str, programs: list[tuple[tvm.s_tir.Schedule, float]], device: str
) -> None:
    """One raw file, of a program that was measured twice the faster time."""
    kept = {}
    for schedule, taken in programs:  # fastest first
        kept.setdefault(compiler.hash_of(schedule.mod), (schedule, taken))
    schedules = [schedule for schedule, _ in kept.values()]
    traces = [tvm.ir.save_json(schedule.trace.as_json(False)) for schedule in schedules]
    seconds = np.full((1, len(kept), 1 + VISITS), np.nan)
    seconds[0, :, 1] = [taken for _, taken in kept.values()]
    arrays = {
        **raw.described(schedules, list(kept), traces),
        "seconds": seconds,
        "check": np.zeros((1, len(kept), 2)),  # a search discards what computes otherwise
        "reference": np.ones(VISITS),
    }
    about = {
        "task": task,
        "round": 0,
        "phase": raw.FOUND,
        "processor": processor(),
        "threads": 1,
        "devices": [[set_of(device), compiler.mcpu_of(device)]],
        "opt_level": compiler.OPT_LEVEL,
        "measured_at": now(),
    }
    raw.write(raw.path(work, raw.FOUND, 0, task), arrays, about)


def main() -> None:
    """Write what the command line asks for, and say how much it was."""
    parser = Parser(prog="python -m lib.collect.tvm.recorded", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("network", help="a name, file.py:function, file.onnx or file.pt2")
    parser.add_argument("database", type=Path, help="its folder")
    parser.add_argument("work", type=Path, help="work folder, as outputs/collect-programs")
    parser.add_argument("--batch", type=int, help="examples at a time")
    parser.add_argument("--device", default=NATIVE, choices=(*compiler.MCPU, NATIVE))
    args = parser.parse_args()
    counts = recorded(args.network, args.batch, args.database, args.device, args.work)
    said = ", ".join(f"{count:,} {why}" for why, count in counts.items())
    print(f"recorded: {said}, of {args.database}; in {args.work}/raw/{raw.FOUND}/")


if __name__ == "__main__":
    with one_line_errors():
        main()
