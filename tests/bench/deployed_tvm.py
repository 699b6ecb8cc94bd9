"""The half of :mod:`tests.bench.deployed` that has TVM and its rivals: searches and times."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm

from lib.collect.tvm.agreement import difference
from lib.collect.tvm.importing import Imported, arrays_of, imported
from lib.collect.tvm.library import LIBRARY, runner
from lib.collect.tvm.networks import named
from lib.collect.tvm.running import readings
from lib.collect.tvm.search import by_torch
from lib.files.artifacts import write_json
from lib.files.processor import instruction_sets, processor
from lib.programs.messages import COST_MODELS, PREDICTOR
from tests.bench.deployed import LIMITS, changed

ROUNDS = 20
PYTHON = Path(".venv/bin/python")
SIMD = {"avx2": 256}  # bits of a vector
CHOOSERS = {"search": PREDICTOR, "XGBoost": COST_MODELS[1]}


def searched(network: str, how: str, args: argparse.Namespace) -> tuple[Path, float]:
    """The library of a search, kept with the seconds it took; a larger budget of a model goes on.

    Args:
        how: as the rows have it: who chooses what is measured, the budget, and maybe what goes
            without, of :mod:`tests.bench.deployed_without`.
    """
    name = Path(network).name.replace(":", "_")
    library = args.work / f"{name}.{args.device}.{how.replace(' ', '.')}.so"
    seconds = library.with_suffix(".json")
    if not seconds.exists():
        chooser, budget, *without = how.split()
        kind = "" if CHOOSERS[chooser] == PREDICTOR else f".{CHOOSERS[chooser]}"
        before = [*args.outputs.glob(f"*/search/*{name}.{args.device}{kind}")] if without else []
        aside = [folder.rename(folder.with_name(folder.name + ".aside")) for folder in before]
        start = time.monotonic()
        command = ["-m", "lib.programs.search", "--network", network, "--budget", budget]
        command += ["--cost-model", CHOOSERS[chooser], "--outputs", str(args.outputs)]
        command += ["--device", args.device, "--core", str(args.core)]
        python = Path(sys.executable).absolute()
        for change in without:
            python = changed(python, change, args.work)
        command += ["--tvm", str(python)]
        subprocess.run([PYTHON, *command], check=True)
        taken = time.monotonic() - start
        (found,) = args.outputs.glob(f"*/search/*{name}.{args.device}{kind}/{LIBRARY}")
        shutil.copy(found, library)
        if without:  # its database is of other programs
            shutil.rmtree(found.parent)
        for folder, place in zip(aside, before, strict=True):
            folder.rename(place)
        write_json(seconds, taken)
    return library, json.loads(seconds.read_text())


def compiled_by_torch(network: Imported, device: str) -> Callable[[], Any]:
    """The network by ``torch.compile``, its weights frozen, for a device."""
    module, inputs = network.built
    torch._inductor.config.freezing = True
    torch._inductor.config.cpp.simdlen = SIMD.get(device)
    run = torch.compile(module)
    return torch.no_grad()(lambda: run(*inputs))


def onnx_file(network: Imported, folder: Path) -> Path:
    """The network as an ONNX file in a folder."""
    module, inputs = network.built
    path = folder / "network.onnx"
    torch.onnx.export(module, inputs, path, dynamo=True, verbose=False)
    return path


def by_onnx_runtime(network: Imported, path: Path) -> Callable[[], Any]:
    """The network by ONNX Runtime, on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {x.name: v for x, v in zip(session.get_inputs(), network.inputs, strict=True)}
    return lambda: session.run(None, feeds)


def by_openvino(network: Imported, path: Path) -> Callable[[], Any]:
    """The network by OpenVINO, in float32 as the others are."""
    import openvino

    core = openvino.Core()
    how = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    how |= {"PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False}
    request = core.compile_model(path, "CPU", how).create_infer_request()
    return lambda: request.infer(list(network.inputs))


def measured(network: str, searches: list[str], args: argparse.Namespace) -> dict[str, Any]:
    """A row: least and median milliseconds of all, seconds of searches, differences from torch."""
    os.environ["TVM_NUM_THREADS"] = "1"
    args.work.mkdir(parents=True, exist_ok=True)
    found = {how: searched(network, how, args) for how in searches}
    os.sched_setaffinity(0, {args.core})
    torch.set_num_threads(1)
    source = imported(named(network, 1))
    runs = {
        how: runner(tvm.runtime.load_module(str(path)), source.inputs)
        for how, (path, _) in found.items()
    }
    off = {
        name: max(map(difference, arrays_of(run()), source.expected)) for name, run in runs.items()
    }
    runs |= by_torch(source) | {"torch.compile": compiled_by_torch(source, args.device)}
    path = onnx_file(source, args.work)
    runs["OpenVINO"] = by_openvino(source, path)
    if args.device not in LIMITS or "avx512" not in instruction_sets():
        runs["ONNX Runtime"] = by_onnx_runtime(source, path)
    turns = readings(runs, ROUNDS)
    taken = {name: [1e3 * seconds for seconds in own] for name, own in turns.items()}
    return {
        **{
            "network": network.rpartition("/")[2],
            "device": args.device,
            "date": time.strftime("%F"),
        },
        **{"processor": processor(), "off": off},
        "least": {name: min(ms) for name, ms in taken.items()},
        "median": {name: float(np.median(ms)) for name, ms in taken.items()},
        "searching": {how: seconds for how, (_, seconds) in found.items()},
    }
