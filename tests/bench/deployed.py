"""Whole networks as `make search` leaves them, beside what users run today, on one core.

    .venv-collect-programs/bin/python -m pip install -r tests/bench/deployed.txt
    .venv-collect-programs/bin/python -m tests.bench.deployed --core 1 [--networks NAME ...]
    .venv-collect-programs/bin/python -m tests.bench.deployed --print

The rivals: PyTorch as it is, ``torch.compile`` with its weights frozen, ONNX Runtime, OpenVINO in
float32. Each network is searched with every budget, by the predictor of ``outputs/programs-cpu``;
then all libraries and rivals run in one process, in turns, on the same inputs, one thread each.
What was measured is kept in ``deployed.json`` beside this file, a row a network and device, and is
not measured again; move it away when the search has changed. ``--print`` runs nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm

from lib.collect.tvm.agreement import difference
from lib.collect.tvm.asked import named
from lib.collect.tvm.importing import Imported, arrays_of, imported
from lib.collect.tvm.library import LIBRARY, runner
from lib.collect.tvm.rivals import onnx_file, rivals
from lib.collect.tvm.running import READING_SECONDS, clock_on
from lib.files.artifacts import write_json
from lib.files.processor import processor
from lib.files.terminal import table

MEASURED = Path(__file__).with_suffix(".json")
MINE = "tests/bench/deployed_mine.py:network"  # from the root, where this is run
NETWORKS = (
    *("resnet18.w64_s112.b1", "resnet50.w32_s64.b1", "mobilenet_v2.w32_s112.b1"),
    *("convnext.w24_s64.b1", "bert.w256_t128.b1", "decode.w256_t128.b1", "vit.w128_s96.b1"),
    MINE,
)
BUDGETS = (16, 64)
ROUNDS = 20
PYTHON = Path(".venv/bin/python")


def searched(network: str, budget: int, args: argparse.Namespace) -> tuple[Path, float]:
    """The library of a search, and the seconds that the search took; a larger budget goes on."""
    name = Path(network).name.replace(":", "_")
    library = args.work / f"{name}.{args.device}.{budget}.so"
    start = time.monotonic()
    command = ["-m", "lib.programs.search", "--network", network, "--budget", str(budget)]
    where = ["--device", args.device, "--core", str(args.core), "--outputs", str(args.outputs)]
    subprocess.run([PYTHON, *command, *where], check=True)
    taken = time.monotonic() - start
    (found,) = args.outputs.glob(f"*/search/*{name}.{args.device}/{LIBRARY}")
    shutil.copy(found, library)
    return library, taken


def compiled_by_torch(network: Imported) -> Callable[[], Any]:
    """The network by ``torch.compile``, its weights frozen."""
    module, inputs = network.built
    torch._inductor.config.freezing = True
    run = torch.compile(module)
    return torch.no_grad()(lambda: run(*inputs))


def by_openvino(network: Imported, folder: Path) -> Callable[[], Any]:
    """The network by OpenVINO, in float32 as the others are."""
    import openvino

    core = openvino.Core()
    how = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    how |= {"PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False}
    request = core.compile_model(onnx_file(network, folder), "CPU", how).create_infer_request()
    return lambda: request.infer(list(network.inputs))


def readings(runs: dict[str, Callable[[], Any]], args: argparse.Namespace) -> dict[str, list]:
    """(rounds,) milliseconds of a run of each, in turns."""
    clock = clock_on(args.core)
    numbers, taken = {}, {name: [] for name in runs}
    for name, run in runs.items():
        for _ in range(3):
            start = time.perf_counter()
            run()
            numbers[name] = max(1, int(READING_SECONDS / (time.perf_counter() - start)))
    for _ in range(ROUNDS):
        with clock.core.calm():
            for name, run in runs.items():
                run()
                start = time.perf_counter()
                for _ in range(numbers[name]):
                    run()
                taken[name].append(1e3 * (time.perf_counter() - start) / numbers[name])
    return taken


def measured(network: str, args: argparse.Namespace) -> dict[str, Any]:
    """A row: least and median milliseconds of all, seconds of searches, differences from torch."""
    found = [searched(network, budget, args) for budget in args.budgets]
    torch.set_num_threads(1)
    source = imported(named(network, 1), deployed=True)
    runs = {
        f"search {budget}": runner(tvm.runtime.load_module(str(path)), source.inputs)
        for budget, (path, _) in zip(args.budgets, found, strict=True)
    }
    off = {
        name: max(map(difference, arrays_of(run()), source.expected)) for name, run in runs.items()
    }
    runs |= rivals(source) | {"torch.compile": compiled_by_torch(source)}
    runs["OpenVINO"] = by_openvino(source, args.work)
    taken = readings(runs, args)
    return {
        **{
            "network": network.rpartition("/")[2],
            "device": args.device,
            "date": time.strftime("%F"),
        },
        **{"processor": processor(), "off": off},
        "least": {name: min(ms) for name, ms in taken.items()},
        "median": {name: float(np.median(ms)) for name, ms in taken.items()},
        "searching": dict(zip(map(str, args.budgets), (s for _, s in found), strict=True)),
    }


def as_table(rows: list[dict[str, Any]]) -> str:
    """Least milliseconds of each network by each way, and the geometric means of the ratios."""
    names = list(dict.fromkeys(name for row in rows for name in row["least"]))
    texts = [
        [
            row["network"],
            row["device"],
            *(f"{row['least'][n]:.3g}" for n in names if n in row["least"]),
        ]
        for row in rows
    ]
    for rival in ("ONNX Runtime", "OpenVINO"):
        ratios = [
            np.exp(np.mean([np.log(row["least"][n] / row["least"][rival]) for row in rows]))
            for n in names
        ]
        texts.append([f"times {rival}", "", *(f"{ratio:.2f}" for ratio in ratios)])
    return table(texts, ["network", "device", *names])


def main() -> None:
    """Measure what is missing, and print all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--core", type=int, default=1)
    parser.add_argument("--device", default="native")
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--budgets", nargs="+", type=int, default=BUDGETS)
    parser.add_argument("--outputs", type=Path, default=Path("outputs"), help="with a predictor")
    parser.add_argument("--work", type=Path, default=Path("outputs/deployed"))
    parser.add_argument("--print", action="store_true", dest="only_print")
    args = parser.parse_args()
    args.work.mkdir(parents=True, exist_ok=True)
    os.environ["TVM_NUM_THREADS"] = "1"
    rows = json.loads(MEASURED.read_text()) if MEASURED.exists() else []
    there = {(row["network"], row["device"]) for row in rows}
    for network in () if args.only_print else args.networks:
        if (network.rpartition("/")[2], args.device) not in there:
            rows.append(measured(network, args))
            write_json(MEASURED, rows)
    print(as_table(rows))


if __name__ == "__main__":
    main()
