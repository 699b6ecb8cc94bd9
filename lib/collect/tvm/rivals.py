"""Other ways to run a network, to compare with a searched one: PyTorch and ONNX Runtime."""

from __future__ import annotations

import importlib.util
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from onnx import ModelProto
from torch.export import ExportedProgram

from lib.collect.tvm.importing import Imported
from lib.collect.tvm.reasons import MOST_WORDS
from lib.files.errors import in_one_line


def rivals(
    network: Imported, threads: int = 1
) -> tuple[dict[str, Callable[[], Any]], dict[str, str]]:
    """Return a run on the example inputs by each framework that is installed here, and reasons of
    those that cannot run the network, both by name.

    ONNX Runtime on one thread alone: several of its threads took three times as long in the process
    of a search as in one of their own.
    """
    torch.set_num_threads(threads)
    module, inputs = network.built
    runs: dict[str, Callable[[], Any]] = {}
    failed: dict[str, str] = {}
    if not isinstance(module, ModelProto):
        called = module.module() if isinstance(module, ExportedProgram) else module
        runs["PyTorch"] = torch.inference_mode()(lambda: called(*inputs))
    packages = ("onnxruntime", "onnxscript") if runs else ("onnxruntime",)
    if threads == 1 and all(importlib.util.find_spec(package) for package in packages):
        try:
            runs["ONNX Runtime"] = onnx_runtime(network)
        except Exception as error:  # of torch or ONNX Runtime, whatever its kind
            failed["ONNX Runtime"] = in_one_line(error)[:MOST_WORDS]
    return runs, failed


def onnx_runtime(network: Imported) -> Callable[[], Any]:
    """Return a session of ONNX Runtime on one thread."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    with tempfile.TemporaryDirectory() as folder:
        path = onnx_file(network, Path(folder))
        session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    names = (given.name for given in session.get_inputs())
    feeds = dict(zip(names, network.inputs, strict=True))
    return lambda: session.run(None, feeds)


def onnx_file(network: Imported, folder: Path) -> Path:
    """Return a network as an ONNX file in a folder."""
    module, inputs = network.built
    path = folder / "network.onnx"
    if isinstance(module, ModelProto):
        path.write_bytes(module.SerializeToString())
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(module, inputs, path, dynamo=True, verbose=False)
    return path
