"""From networks to tasks: ``python -m lib.collect.tvm.extract WORK NETWORK ...``.

TVM fuses a network's operators into functions (:mod:`lib.collect.tvm.importing`); each distinct
function is a task. Networks and tasks are written to the work folder, see
:mod:`lib.collect.tvm.plan`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import tvm
from tvm.ir import IRModule
from tvm.s_tir import meta_schedule

from lib.collect.tvm.compiler import SCHEDULE_TARGET, hash_of
from lib.collect.tvm.importing import imported
from lib.collect.tvm.networks import Network, named
from lib.collect.tvm.plan import bundled, network_path, task_path
from lib.collect.tvm.running import arguments_of
from lib.files.artifacts import read_json, write_json
from lib.files.errors import one_line_errors
from lib.files.progress import Lines


def extract(network: Network, work: Path) -> None:
    """Write a network and its tasks; those of the bundled data as they are there."""
    calls = []
    deployed = imported(network)
    known = bundled()[1]
    for task in meta_schedule.relax_integration.extract_tasks(deployed.module, SCHEDULE_TARGET):
        module = task.dispatched[0]
        name = hash_of(module)
        path = task_path(work, name)
        if path.exists():
            metadata = read_json(path)
        else:
            operators = task.task_name.removeprefix("fused_")
            metadata = known.get(name) or described(name, operators, module)
        footprint = max(metadata.get("footprint", 0), deployed.footprint)
        write_json(path, {**metadata, "footprint": footprint})
        calls.append({"task": name, "calls": int(task.weight)})
    calls.sort(key=lambda row: row["task"])
    write_json(network_path(work, network.name), {"network": network.name, "tasks": calls})


def described(name: str, operators: str, module: IRModule) -> dict[str, Any]:
    """Return what there is to know of a task before it is measured."""
    return {
        "task": name,
        "operators": operators,
        "arguments": arguments_of(module),
        "flops": float(tvm.s_tir.analysis.estimate_tir_flops(module)),
        "module": tvm.ir.save_json(module),
    }


def main() -> None:
    """Write the networks that are named, and their tasks, in the work folder."""
    work, *names = sys.argv[1:]
    for name in Lines("collect", len(names), "network").over(names):
        extract(named(name, None), Path(work))


if __name__ == "__main__":
    with one_line_errors():
        main()
