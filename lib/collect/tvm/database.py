"""TVM's tuning database on disk: two files of a JSON a line, which a kill may cut short."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from tvm.ir import IRModule
from tvm.s_tir import Schedule, meta_schedule
from tvm.target import Target

from lib.collect.tvm.compiler import target_of
from lib.files.artifacts import atomic_file
from lib.files.errors import DataError

WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"
FAILED = 1e10  # seconds: what TVM's own search notes of a program that does not run
# What the rules of MetaSchedule annotate. Others have an effect when a program is compiled: one of
# them links code of a record's own into this process.
ANNOTATIONS = re.compile(r"meta_schedule\.\w+|pragma_auto_unroll_max_step|pragma_unroll_explicit")


class TuningDatabase:
    """Measured schedules of tasks, in the order in which they were measured.

    Records of other targets, which the files may have as well, are left alone and do not count.

    Args:
        folder: of the two files, which are made if there are none.
        device: instruction set that programs are compiled for.

    Attributes:
        tvm: the records of programs that run, for TVM's passes and searches.
    """

    def __init__(self, folder: Path, device: str):
        self.folder, self.target = folder, target_of(device)
        folder.mkdir(parents=True, exist_ok=True)
        for name in (WORKLOADS, RECORDS):
            drop_unfinished_line(folder / name)
        self.tvm = meta_schedule.database.MemoryDatabase()
        self.files = opened(folder)
        for record in self.files.get_all_tuning_records():
            if self._fits(record.target) and (taken := _seconds(record.run_secs)) == taken:
                self._keep(record)

    def _keep(self, record: meta_schedule.database.TuningRecord) -> None:
        self.tvm.commit_workload(record.workload.mod)
        self.tvm.commit_tuning_record(record)

    def _fits(self, target: Any) -> bool:
        return str(Target(target)) == str(self.target)

    def add(self, task: IRModule, schedule: Schedule, seconds: float) -> None:
        """Note a measurement; NaN seconds if the program does not run."""
        arguments = meta_schedule.arg_info.ArgInfo.from_prim_func(task["main"])
        runs = seconds == seconds
        record = meta_schedule.database.TuningRecord(
            schedule.trace,
            self.files.commit_workload(task),
            [seconds] if runs else None,
            self.target,
            arguments,
        )
        self.files.commit_tuning_record(record)
        if runs:
            self._keep(record)

    def records(self, task: IRModule) -> list[str]:
        """Return what was measured of a task, a line of JSON each, in the order of measuring."""
        workload = str(self.files.commit_workload(task).as_json()[0])
        known = (self.folder / WORKLOADS).read_text().splitlines()
        number = [json.loads(line)[0] for line in known].index(workload)  # its line
        lines = (self.folder / RECORDS).read_text().splitlines()
        # Other tasks' lines are not parsed: they are megabytes, and each task asks several times.
        own = (line for line in lines if int(line[1 : line.index(",")]) == number)
        records = (json.loads(line)[1] for line in own)
        return [json.dumps(record) for record in records if self._fits(record[2])]

    def measured(self, task: IRModule) -> list[float]:
        """Return seconds of a task's programs as they were measured; NaN where one failed."""
        return [_seconds(json.loads(record)[1]) for record in self.records(task)]

    def take(self, task: IRModule, records: Sequence[str], most: int) -> tuple[int, set[str]]:
        """Take records of other searches that are not here: at most so many, the fastest first.

        Returns:
            The number of those that cannot be used, and the schedules of the others.
        """
        workload = self.files.commit_workload(task)
        here, usable, damaged = set(map(trace_of, self.records(task))), [], 0
        for line in records:
            try:
                record = json.loads(line)
                if _strange(record) or not self._fits(record[2]):
                    raise ValueError(line)
                usable.append((np.nan_to_num(_seconds(record[1]), nan=FAILED), line))
            except (ValueError, LookupError, TypeError):
                damaged += 1
        for _, line in sorted(usable)[: max(0, most - len(here))]:
            if trace_of(line) in here:
                continue
            try:
                record = meta_schedule.database.TuningRecord.from_json(json.loads(line), workload)
                record.as_measure_candidate()
            except Exception:  # of TVM, whatever its kind
                damaged += 1
                continue
            self.files.commit_tuning_record(record)
            if (taken := _seconds(record.run_secs)) == taken:
                self._keep(record)
        return damaged, {trace_of(line) for _, line in usable}

    def programs(self, task: IRModule) -> list[tuple[Schedule, float]]:
        """Return the programs of a task that run, fastest first, with their seconds."""
        records = self.tvm.get_top_k(self.tvm.commit_workload(task), 1 << 30)
        return [(run.as_measure_candidate().sch, _seconds(run.run_secs)) for run in records]


def trace_of(record: str) -> str:
    """Return the schedule of a line of :meth:`TuningDatabase.records`."""
    return json.dumps(json.loads(record)[0])


def _seconds(noted: Sequence[Any] | None) -> float:
    """Return a record's seconds; NaN of a program that does not run."""
    taken = float(noted[0]) if noted else float("nan")
    return taken if taken < FAILED else float("nan")


def _strange(record: Any) -> str:
    """Return an annotation of a record that no rule of MetaSchedule makes; nothing without one."""
    try:
        steps = record[0][0]
        names = [str(step[2][0]) for step in steps if "nnotate" in str(step[0])]
    except (ValueError, LookupError, TypeError):
        return "steps that cannot be read"
    return next((name for name in names if not ANNOTATIONS.fullmatch(name)), "")


def opened(folder: Path) -> meta_schedule.database.JSONDatabase:
    """Return the database of a folder.

    Raises:
        DataError: TVM cannot read it, or it has a record that is no rule's.
    """
    for line in (folder / RECORDS).read_text().splitlines() if (folder / RECORDS).exists() else ():
        record = None
        with suppress(ValueError, LookupError, TypeError):
            record = json.loads(line)[1]
        if strange := _strange(record):
            raise DataError(folder, RECORDS, f"a record with {strange}", "what MetaSchedule writes")
    try:
        return meta_schedule.database.JSONDatabase(work_dir=str(folder))
    except Exception as error:  # of TVM, whatever its kind
        reason = " ".join(str(error).split())[-200:]
        raise DataError(folder, "json", reason, "a tuning database of TVM; delete it") from None


def drop_unfinished_line(path: Path) -> None:
    """Leave out the end of a file that was cut short in the middle of a line."""
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        with atomic_file(path) as temporary:
            temporary.write_bytes(whole)
