"""From networks to tasks, the distinct tensor programs that they consist of.

TVM fuses a network's operators into functions (:mod:`lib.collect.tvm.importing`); each distinct
function is a task. Networks and tasks are written to the work folder: :mod:`lib.collect.tvm.tasks`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import tvm
from tqdm import tqdm
from tvm.ir import IRModule
from tvm.s_tir import meta_schedule

from lib.collect.tvm.compiler import SCHEDULE_TARGET, Sampler, hash_of
from lib.collect.tvm.importing import imported
from lib.collect.tvm.networks import Network, chosen_networks
from lib.collect.tvm.running import arguments_of
from lib.collect.tvm.tasks import network_path, task_path
from lib.files.artifacts import fingerprint_files, read_json, write_json
from lib.files.errors import one_line_errors

SAMPLE = 16  # schedules drawn to see how many distinct ones a task has
FORMAT = 2  # of what is cached: another number, and networks are read anew
SOURCES = Path(__file__).parent / "networks"


def extract(network: Network, work: Path) -> None:
    """Write a network's tasks, unless they are there and of the same sources."""
    path = network_path(work, network.name)
    stamp = f"{FORMAT}:{fingerprint_files(SOURCES.glob('[a-z]*.py'), SOURCES)}"
    if path.exists() and read_json(path)["sources"] == stamp:
        return
    calls = []
    deployed = imported(network, deployed=True)
    for task in meta_schedule.relax_integration.extract_tasks(deployed.module, SCHEDULE_TARGET):
        module = task.dispatched[0]
        name = hash_of(module)
        _write_task(task_path(work, name), task.task_name, module)
        calls.append({"task": name, "calls": int(task.weight)})
    calls.sort(key=lambda row: row["task"])
    about = {"network": network.name, "sources": stamp, "footprint": deployed.footprint}
    write_json(path, {**about, "tasks": calls})


def _write_task(path: Path, name: str, module: IRModule) -> None:
    if path.exists():
        return
    sampled = {hash_of(s.mod) for s in Sampler(module, 0).draw(SAMPLE)}
    about = {
        "task": path.stem,
        "operators": name.removeprefix("fused_"),
        **arguments_of(module),
        "flops": float(tvm.s_tir.analysis.estimate_tir_flops(module)),
        "distinct": len(sampled),
        "sampled": SAMPLE,
        "module": tvm.ir.save_json(module),
    }
    write_json(path, about)


def main() -> None:
    """Write the tasks of the networks that are named, in the work folder."""
    work, patterns = Path(sys.argv[1]), sys.argv[2]
    for network in tqdm(chosen_networks(patterns), unit="network", file=sys.stdout, disable=None):
        extract(network, work)


if __name__ == "__main__":
    with one_line_errors():
        main()
