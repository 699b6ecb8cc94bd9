"""The half of :mod:`tests.bench.deployed` that has TVM and its rivals: searches and times.

    python -m tests.bench.deployed_tvm NETWORK DEVICE THREADS CORE BUDGET OUTPUTS ROW

It writes a row; whose libraries have begun for a set of instructions cannot be told of another.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tvm

from lib.collect.tvm.agreement import difference
from lib.collect.tvm.importing import Imported, arrays_of, imported
from lib.collect.tvm.library import LIBRARY
from lib.collect.tvm.networks import named
from lib.collect.tvm.running import readings
from lib.collect.tvm.search import by_original
from lib.files.artifacts import read_json, write_json
from lib.files.processor import instruction_sets, processor
from lib.programs.messages import file_name
from tests.bench.deployed import LIMITS, OURS, WAYS

ROUNDS = 10
PYTHON = Path(".venv/bin/python")
SAVED = bytes.fromhex("31c9 0f01d0")  # xor ecx, ecx; xgetbv: the registers that Linux saves
OF_AVX = bytes.fromhex("31c9 b007 90")  # xor ecx, ecx; mov al, 7; nop: those of AVX, no others
Runs = tuple[Callable[[], Any], Callable[[], Any]]  # bound or shared, and with NumPy in and out


def searched(
    network: str, device: str, threads: int, core: int, budget: int, outputs: Path
) -> Path:
    """Return the folder of a network's search, which is made unless it is there."""
    name = f"{file_name(network)}.{device}" + f".{threads}t" * (threads > 1)
    for folder in outputs.glob(f"*/search/{name}"):
        if (folder / LIBRARY).exists() and read_json(folder / "search.json")["budget"] == budget:
            return folder
    command = ["-m", "lib.programs.search", "--network", network, "--device", device]
    command += ["--budget", str(budget), "--core", str(core), "--threads", str(threads)]
    command += ["--outputs", str(outputs), "--tvm", str(Path(sys.executable).absolute())]
    subprocess.run([PYTHON, *command], check=True)
    (folder,) = outputs.glob(f"*/search/{name}")
    return folder


def by_library(library: tvm.runtime.Module, network: Imported) -> Runs:
    """The network by the library, as its ``run.py`` calls it."""
    main = tvm.relax.VirtualMachine(library, tvm.cpu())["main"]
    inputs = [tvm.runtime.tensor(array) for array in network.inputs]
    memory = [*map(np.from_dlpack, inputs)]

    def with_arrays() -> tuple[np.ndarray, ...]:
        for own, given in zip(memory, network.inputs, strict=True):
            own[...] = given
        return arrays_of(main(*inputs))

    return lambda: main(*inputs), with_arrays


def by_pytorch(network: Imported) -> Runs:
    """The network by PyTorch."""
    ((_, bound),) = by_original(network).items()
    module, _ = network.built

    @torch.inference_mode()
    def with_arrays() -> list[np.ndarray]:
        found = module(*map(torch.from_numpy, network.inputs))
        return [x.numpy() for x in (found if isinstance(found, tuple) else (found,))]

    return bound, with_arrays


def without_avx512(place: Path) -> None:
    """Write a copy of ONNX Runtime that is told there is no AVX-512, to be imported from now on.

    ONNX Runtime asks the processor, and no setting of it leaves instructions out.
    """
    original = Path(find_spec("onnxruntime").origin).parent
    (library,) = shutil.copytree(original, place / original.name).glob("capi/*_state*.so")
    code = library.read_bytes()
    if "onnxruntime" in sys.modules or SAVED not in code:
        raise RuntimeError("ONNX Runtime is loaded already, or asks otherwise")
    library.write_bytes(code.replace(SAVED, OF_AVX))
    sys.path.insert(0, str(place))


def by_onnx_runtime(network: Imported, path: Path, threads: int) -> Runs:
    """The network by ONNX Runtime, with inputs and outputs bound."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {x.name: v for x, v in zip(session.get_inputs(), network.inputs, strict=True)}
    binding, value = session.io_binding(), onnxruntime.OrtValue
    for name, array in feeds.items():
        binding.bind_ortvalue_input(name, value.ortvalue_from_numpy(array))
    for output, array in zip(session.get_outputs(), network.expected, strict=True):
        result = value.ortvalue_from_shape_and_type(array.shape, array.dtype)
        binding.bind_ortvalue_output(output.name, result)
    return lambda: session.run_with_iobinding(binding), lambda: session.run(None, feeds)


def by_openvino(network: Imported, path: Path, threads: int) -> Runs:
    """The network by OpenVINO in float32, with inputs and outputs shared."""
    import openvino

    how = {"INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    how |= {"PERFORMANCE_HINT": "LATENCY", "ENABLE_CPU_PINNING": False}
    request = openvino.Core().compile_model(path, "CPU", how).create_infer_request()
    inputs, shared = list(network.inputs), {"share_inputs": True, "share_outputs": True}
    return lambda: request.infer(inputs, **shared), lambda: request.infer(inputs)


def measured(network: str, device: str, threads: int, core: int, folder: Path) -> dict[str, Any]:
    """Least milliseconds of all, both ways, and what the library is off from PyTorch."""
    os.environ["TVM_NUM_THREADS"] = str(threads)
    if threads == 1:
        os.sched_setaffinity(0, {core})
    source = imported(named(network, None))
    torch.set_num_threads(threads)
    library = tvm.runtime.load_module(str(folder / LIBRARY))
    ours = by_library(library, source)
    runs = {OURS: ours, "PyTorch": by_pytorch(source)}
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "network.onnx"
        if device in LIMITS and "avx512" in instruction_sets():
            without_avx512(path.parent)
        rivals = {"OpenVINO": by_openvino, "ONNX Runtime": by_onnx_runtime}
        for name, rival in rivals.items():
            try:
                if not path.exists():
                    torch.onnx.export(*source.built, path, dynamo=True, verbose=False)
                runs[name] = rival(source, path, threads)
            except Exception as error:  # of a network that it cannot read
                print(f"{network}: {name} does not run it: {error}")
    turns = {f"{name} {WAYS[k]}": run for name, own in runs.items() for k, run in enumerate(own)}
    taken = readings(turns, ROUNDS)
    times = {way: {name: 1e3 * min(taken[f"{name} {way}"]) for name in runs} for way in WAYS}
    return {"off": max(map(difference, arrays_of(ours[0]()), source.expected)), **times}


def main() -> None:
    """Search a network, and write its row."""
    network, device, threads, core, budget, outputs, row = sys.argv[1:]
    numbers = device, int(threads), int(core)
    folder = searched(network, *numbers, int(budget), Path(outputs))
    about = {"network": network, "device": device, "threads": int(threads), "budget": int(budget)}
    about |= {"processor": processor(), "date": time.strftime("%F")}
    write_json(Path(row), about | measured(network, *numbers, folder))


if __name__ == "__main__":
    main()
