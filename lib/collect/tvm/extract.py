"""From networks to tasks, the distinct tensor programs that they consist of.

A network goes through ``torch.export`` and TVM's relax, which fuses its operators into functions;
each distinct function is a task. Both are written to the work folder, see
:mod:`lib.collect.tvm.tasks`.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch
import tvm
from tqdm import tqdm
from tvm import relax
from tvm.ir import IRModule
from tvm.relax.frontend.torch import from_exported_program
from tvm.s_tir import meta_schedule

from lib.collect.tvm.compiler import SCHEDULE_TARGET, Sampler, hash_of
from lib.collect.tvm.networks import Network, chosen
from lib.collect.tvm.tasks import network_path, task_path
from lib.files.artifacts import fingerprint_files, read_json, write_json
from lib.files.errors import one_line_errors

SAMPLE = 48  # schedules drawn to see how many distinct ones a task has
FORMAT = 1  # of what is cached: another number, and networks are read anew
SOURCES = Path(__file__).parent / "networks"


def relax_module(network: Network) -> IRModule:
    """A network as fused functions; what depends on weights alone is taken out of it."""
    torch.set_num_threads(1)
    module, inputs = network.build()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exported = torch.export.export(module.eval(), inputs)
    found = from_exported_program(exported, keep_params_as_input=True, run_ep_decomposition=False)
    passes = relax.transform
    with SCHEDULE_TARGET:
        found = tvm.ir.transform.Sequential(
            [
                passes.DecomposeOpsForInference(),
                passes.CanonicalizeBindings(),
                passes.LiftTransformParams(),
                passes.LegalizeOps(),
                passes.AnnotateTIROpPattern(),
                passes.FuseOps(),
                passes.FuseTIR(),
            ]
        )(found)
        kept = {g: f for g, f in found.functions.items() if g.name_hint != "main_transform_params"}
        return passes.DeadCodeElimination(["main"])(IRModule(kept))


def extract(network: Network, work: Path) -> None:
    """Write a network's tasks, unless they are there and of the same sources."""
    path = network_path(work, network.name)
    stamp = f"{FORMAT}:{fingerprint_files(SOURCES.glob('[a-z]*.py'), SOURCES)}"
    if path.exists() and read_json(path)["sources"] == stamp:
        return
    calls = []
    for task in meta_schedule.relax_integration.extract_tasks(
        relax_module(network), SCHEDULE_TARGET
    ):
        module = task.dispatched[0]
        name = hash_of(module)
        _write_task(task_path(work, name), task.task_name, module)
        calls.append({"task": name, "calls": int(task.weight)})
    calls.sort(key=lambda row: row["task"])
    write_json(path, {"network": network.name, "sources": stamp, "tasks": calls})


def _write_task(path: Path, name: str, module: IRModule) -> None:
    if path.exists():
        return
    sampled = {hash_of(s.mod) for s in Sampler(module, 0).draw(SAMPLE)}
    arguments = [
        {"shape": [int(x) for x in p.shape], "dtype": str(p.dtype)} for p in module["main"].params
    ]
    about = {
        "task": path.stem,
        "operators": name.removeprefix("fused_"),
        "arguments": arguments,
        "flops": float(tvm.s_tir.analysis.estimate_tir_flops(module)),
        "distinct": len(sampled),
        "sampled": SAMPLE,
        "module": tvm.ir.save_json(module),
    }
    write_json(path, about)


def main() -> None:
    """Write the tasks of the networks that are named, in the work folder."""
    work, patterns = Path(sys.argv[1]), sys.argv[2]
    for network in tqdm(chosen(patterns), unit="network", file=sys.stdout, disable=None):
        extract(network, work)


if __name__ == "__main__":
    with one_line_errors():
        main()
