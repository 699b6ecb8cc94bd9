"""TVM's tuning database on disk: two files of a JSON a line, which a kill may cut short."""

from __future__ import annotations

import json
from pathlib import Path

from tvm.ir import IRModule
from tvm.s_tir import Schedule, meta_schedule

from lib.collect.tvm.compiler import target_of
from lib.files.artifacts import atomic_file
from lib.files.errors import DataError

WORKLOADS, RECORDS = "database_workload.json", "database_tuning_record.json"
FAILED = 1e10  # seconds that TVM's own search notes of a program that does not run


class TuningDatabase:
    """Measured schedules of tasks, in the order in which they were measured.

    Args:
        folder: of the two files, which are made if there are none.
        device: instruction set that programs are compiled for.
    """

    def __init__(self, folder: Path, device: str):
        self.folder, self.target = folder, target_of(device)
        folder.mkdir(parents=True, exist_ok=True)
        for name in (WORKLOADS, RECORDS):
            drop_unfinished_line(folder / name)
        try:
            self.tvm = meta_schedule.database.JSONDatabase(work_dir=str(folder))
        except Exception as error:  # of TVM, whatever its kind
            said = " ".join(str(error).split())[-200:]
            raise DataError(folder, "json", said, "a tuning database of TVM; delete it") from None

    def add(self, task: IRModule, schedule: Schedule, seconds: float) -> None:
        """Note a measurement; NaN seconds if the program does not run."""
        taken = seconds if seconds == seconds else FAILED
        workload = self.tvm.commit_workload(task)
        arguments = meta_schedule.arg_info.ArgInfo.from_prim_func(task["main"])
        record = meta_schedule.database.TuningRecord(
            schedule.trace, workload, [taken], self.target, arguments
        )
        self.tvm.commit_tuning_record(record)

    def measured(self, task: IRModule) -> list[float]:
        """Seconds of a task's programs, in the order of measuring; NaN where one did not run."""
        self.tvm.commit_workload(task)
        number = self._number(task)
        lines = [json.loads(line) for line in (self.folder / RECORDS).read_text().splitlines()]
        seconds = [line[1][1][0] for line in lines if line[0] == number]
        return [float(one) if one < FAILED else float("nan") for one in seconds]

    def programs(self, task: IRModule) -> list[tuple[Schedule, float]]:
        """The programs of a task that run, fastest first, with their seconds."""
        workload = self.tvm.commit_workload(task)
        found = self.tvm.get_top_k(workload, 1 << 30)
        pairs = [(one.as_measure_candidate().sch, float(one.run_secs[0])) for one in found]
        return [(schedule, seconds) for schedule, seconds in pairs if seconds < FAILED]

    def _number(self, task: IRModule) -> int:
        """A task's line among the workloads."""
        wanted = self.tvm.commit_workload(task).as_json()
        lines = (self.folder / WORKLOADS).read_text().splitlines()
        found = [k for k, line in enumerate(lines) if json.loads(line)[0] == str(wanted[0])]
        return found[0]


def drop_unfinished_line(path: Path) -> None:
    """Leave out the end of a file that was cut short in the middle of a line."""
    if not path.exists():
        return
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if whole != content:
        with atomic_file(path) as temporary:
            temporary.write_bytes(whole)
